"""Network segments in PostgreSQL: reads a snapshot with the segment's addresses, and prepares the data of a commit.

Implements `rows.Rows`; `changes` returns the argument of `farrier.write_network_segments`. The StateIO calls this
class.
"""

from __future__ import annotations

from typing import ClassVar

from farrier.io import statements
from farrier.io.resource import ResourceRows
from farrier.model.network_segment import SPEC, Closing, Growing, NetworkSegment, SegmentWrite

# The columns that a run may change, besides the state.
_COLUMNS = ("mtu", "prefixes", "gateways", "drain_until", "delete_asked_at", "delete_request")


class SegmentRows(ResourceRows[NetworkSegment, SegmentWrite]):
    """Implements `rows.Rows` for kind `network_segment`."""

    sections: ClassVar = {Closing: "closes", Growing: "grows"}

    def __init__(self) -> None:
        super().__init__(
            SPEC,
            NetworkSegment,
            columns=_COLUMNS,
            load=statements.load("network_segment/load"),
            writer="farrier.write_network_segments",
        )
