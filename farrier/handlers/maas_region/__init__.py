"""MAAS regions: what happened in them and what their machines are like, read in bulk for all nodes.

`RegionHandler.handle` decides what is due; `looking` reads it, `cursor` knows how far the events were read, and the
writes become the observations that node handlers decide on.
"""

from __future__ import annotations

from farrier.handlers.maas_region.handler import RegionHandler, RegionServices
from farrier.handlers.resource import ResourceKind
from farrier.model.maas_region import SPEC, MaasRegion

REGION_KIND: ResourceKind[MaasRegion] = ResourceKind(SPEC)

__all__ = ["REGION_KIND", "RegionHandler", "RegionServices"]
