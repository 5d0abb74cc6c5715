"""IB partitions in PostgreSQL: reads a snapshot with its members, and prepares the data that a commit writes.

Implements `rows.Rows`; `changes` returns the argument of `farrier.write_ib_partitions`. The StateIO calls this class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from typing_extensions import override

from farrier.io import statements
from farrier.io.resource import ResourceRows
from farrier.model.ib_partition import COLUMNS, SPEC, IbPartition, Left, Marked, PartitionWrite
from farrier.model.resource import Answer


class PartitionRows(ResourceRows[IbPartition, PartitionWrite]):
    """Implements `rows.Rows` for kind `ib_partition`."""

    def __init__(self) -> None:
        super().__init__(
            SPEC,
            IbPartition,
            columns=COLUMNS,
            load=statements.load("ib_partition/load"),
            writer="farrier.write_ib_partitions",
        )

    @override
    def section(self, write: PartitionWrite) -> tuple[str, Mapping[str, Any]]:
        match write:
            case Marked():
                return "marks", msgspec.structs.asdict(write)
            case Left():
                return "left", msgspec.structs.asdict(write)
            case Answer():
                return super().section(write)
            case _ as never:
                assert_never(never)
