"""Network segments: when one is ready, what may be asked of it, and when it has drained.

`SegmentHandler.handle` decides by the state; `requests` answers what is asked, `prefixes` knows which may be added.
"""

from __future__ import annotations

from farrier.handlers.network_segment.handler import SegmentHandler
from farrier.handlers.resource import ResourceKind
from farrier.model.network_segment import SPEC, NetworkSegment

SEGMENT_KIND: ResourceKind[NetworkSegment] = ResourceKind(SPEC)

__all__ = ["SEGMENT_KIND", "SPEC", "SegmentHandler"]
