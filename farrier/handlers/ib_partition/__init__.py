"""InfiniBand partitions: takes a partition and its members, and returns the changes that bring UFM to this state.

`PartitionHandler.handle` makes all decisions that do not need UFM. Module `steps` reads UFM and makes the changes of a
`plan`.
"""

from __future__ import annotations

from farrier.handlers.ib_partition.handler import PartitionHandler
from farrier.handlers.resource import ResourceKind
from farrier.model.partition.partition import SPEC, IbPartition

PARTITION_KIND: ResourceKind[IbPartition] = ResourceKind(SPEC)

__all__ = ["PARTITION_KIND", "PartitionHandler"]
