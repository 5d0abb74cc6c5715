"""Network segments: takes a segment, its intents and its addresses, and returns its next state.

`SegmentHandler.handle` decides by the segment's state. Module `requests` answers intents, and `prefixes` checks new
prefixes.
"""

from __future__ import annotations

from farrier.handlers.network_segment.handler import SegmentHandler
from farrier.handlers.resource import ResourceKind
from farrier.model.network.segment import SPEC, NetworkSegment

SEGMENT_KIND: ResourceKind[NetworkSegment] = ResourceKind(SPEC)

__all__ = ["SEGMENT_KIND", "SegmentHandler"]
