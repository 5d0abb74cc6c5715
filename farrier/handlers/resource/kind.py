"""What the loop must know about a kind, from its `KindSpec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from farrier.model.kinds import LAYER, KindSpec, label
from farrier.model.measures import Sample
from farrier.model.resource import Answer, Resource
from farrier.model.runs import Answered, Place

R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)


class ResourceKind(Generic[R_contra]):
    """`protocols.Kind` of any kind that has a `KindSpec`."""

    def __init__(self, spec: KindSpec) -> None:
        self.name = spec.name
        self.edges: Mapping[str, frozenset[tuple[str, str]]] = {LAYER: spec.pairs}

    def identify(self, resource: R_contra) -> tuple[int, int]:
        return resource.id, resource.version

    def display_name(self, resource: R_contra) -> str:
        return resource.name

    def current_layers(self, resource: R_contra) -> Mapping[str, Place]:
        return {LAYER: Place(resource.state, resource.state_entered_at)}

    def target_layers(self, to: R_contra) -> Mapping[str, str]:
        return {LAYER: to.state}

    def label(self, resource: R_contra) -> tuple[str, str]:
        return label(resource.state)

    def answers(self, resource: R_contra, writes: Sequence[object], /) -> Sequence[Answered]:
        asked = {request.id: request for request in resource.requests}
        return [
            Answered(
                write.request,
                asked[write.request].action,
                "accepted" if write.accepted else "rejected",
                write.reason,
                asked[write.request].requested_by,
            )
            for write in writes
            if isinstance(write, Answer) and write.request in asked
        ]

    def samples(self, _resource: R_contra, _to: R_contra, /) -> Sequence[Sample]:
        return ()  # a handler's outcomes have its own
