"""IB partitions in PostgreSQL: reads a snapshot with its members, and prepares the data that a commit writes.

Implements `rows.Rows`; `changes` returns the argument of `farrier.write_ib_partitions`. The StateIO calls this class.
"""

from __future__ import annotations

from typing import ClassVar

from farrier.io import statements
from farrier.io.resource import ResourceRows
from farrier.model.ib_partition import COLUMNS, SPEC, IbPartition, Left, Marked, PartitionWrite


class PartitionRows(ResourceRows[IbPartition, PartitionWrite]):
    """Implements `rows.Rows` for kind `ib_partition`."""

    sections: ClassVar = {Marked: "marks", Left: "left"}

    def __init__(self) -> None:
        super().__init__(
            SPEC,
            IbPartition,
            columns=COLUMNS,
            load=statements.load("ib_partition/load"),
            writer="farrier.write_ib_partitions",
        )
