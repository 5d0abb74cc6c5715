"""MAAS regions: takes a region and its machines, and returns steps that read them in bulk, and observations.

`RegionHandler.handle` decides what to read, `observe` reads it, and `cursor` tracks which events were read. Each run
stores the observations that node handlers use.
"""

from __future__ import annotations

from farrier.handlers.maas_region.handler import RegionHandler
from farrier.handlers.resource import ResourceKind
from farrier.model.maas.region import SPEC, MaasRegion

REGION_KIND: ResourceKind[MaasRegion] = ResourceKind(SPEC)

__all__ = ["REGION_KIND", "RegionHandler"]
