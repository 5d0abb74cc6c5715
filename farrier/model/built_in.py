"""The kinds of resources that farrier includes, except nodes. Generic code iterates over these kinds.

This list is not in module `kinds`, because the module of each kind imports `kinds`.
"""

from __future__ import annotations

from farrier.model import ib_partition, maas_region, network_segment
from farrier.model.kinds import KindSpec

BUILT_IN: tuple[KindSpec, ...] = (maas_region.SPEC, network_segment.SPEC, ib_partition.SPEC)
"""The specs of the built-in kinds."""
