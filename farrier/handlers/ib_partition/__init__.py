"""InfiniBand partitions: kept in the fabric manager as they are to be, whatever else happens there.

`PartitionHandler.handle` decides what needs no fabric manager; `steps` does what does, by a `plan`.
"""

from __future__ import annotations

from farrier.handlers.ib_partition.handler import PartitionHandler
from farrier.handlers.ib_partition.steps import PartitionServices
from farrier.handlers.resource import ResourceKind
from farrier.model.ib_partition import SPEC, IbPartition

PARTITION_KIND: ResourceKind[IbPartition] = ResourceKind(SPEC)

__all__ = ["PARTITION_KIND", "SPEC", "PartitionHandler", "PartitionServices"]
