"""The kinds of resources that farrier includes, except nodes. Generic code iterates over these kinds.

This list is not in module `kinds`, because the module of each kind imports `kinds`.
"""

from __future__ import annotations

from farrier.model.kinds.spec import KindSpec
from farrier.model.maas import region
from farrier.model.network import segment
from farrier.model.partition import partition

BUILT_IN: tuple[KindSpec, ...] = (region.SPEC, segment.SPEC, partition.SPEC)
"""The specs of the built-in kinds."""
