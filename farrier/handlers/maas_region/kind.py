"""What the loop must know about MAAS regions: one layer, its edges and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farrier.model.maas_region import EDGES, KIND, LAYER, MaasRegion
from farrier.model.measures import Sample
from farrier.model.runs import Answered, Place


class RegionKind:
    """`protocols.Kind` of MAAS regions."""

    name = KIND
    edges: Mapping[str, frozenset[tuple[str, str]]] = {
        LAYER: frozenset((edge.source.value, edge.target.value) for edge in EDGES)
    }

    def identify(self, resource: MaasRegion) -> tuple[int, int]:
        return resource.id, resource.version

    def display_name(self, resource: MaasRegion) -> str:
        return resource.site

    def current_layers(self, resource: MaasRegion) -> Mapping[str, Place]:
        return {LAYER: Place(resource.state, resource.state_entered_at)}

    def target_layers(self, to: MaasRegion) -> Mapping[str, str]:
        return {LAYER: to.state}

    def label(self, resource: MaasRegion) -> tuple[str, str]:
        return resource.state, ""

    def answers(self, _region: MaasRegion, _writes: Sequence[object], /) -> Sequence[Answered]:
        return ()  # nobody asks anything of a region

    def samples(self, _region: MaasRegion, _to: MaasRegion, /) -> Sequence[Sample]:
        return ()


REGION_KIND = RegionKind()
