"""Network segments: takes a segment, its intents and its addresses, and returns its next state.

`SegmentHandler.handle` decides by the segment's state. Module `requests` answers intents, and `prefixes` checks new
prefixes.
"""
