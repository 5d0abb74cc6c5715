"""Network segments: provisioning, intents, and the drain before their end.

`SegmentHandler.handle` decides by the state; `requests` answers intents, and `prefixes` checks new prefixes.
"""

from __future__ import annotations

from farrier.handlers.network_segment.handler import SegmentHandler
from farrier.handlers.resource import ResourceKind
from farrier.model.network_segment import SPEC, NetworkSegment

SEGMENT_KIND: ResourceKind[NetworkSegment] = ResourceKind(SPEC)

__all__ = ["SEGMENT_KIND", "SPEC", "SegmentHandler"]
