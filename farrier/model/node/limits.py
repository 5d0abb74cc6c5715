"""Resolves limits. The configuration overrides the defaults of `sla` for a site, for a machine model, or for all.

The first of these limits that is set applies: the limit of the site, the limit of the model, the general limit, the
default. The module also lists every state that has a clock, by the labels of metrics. Pure; used by the handler, the
views and the census.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import product
from typing import TypeAlias

import msgspec

from farrier.model.kinds.spec import KindSpec, label
from farrier.model.node import layers, sla
from farrier.model.node import spec as node_spec

Overrides: TypeAlias = Mapping[str, timedelta]
"""Limits by key."""

END_TO_END = "end_to_end"
"""The state of the clock for a whole workflow."""

SUBSTATE = "/"
"""The separator between a state and its substate."""


class Limits(msgspec.Struct, frozen=True):
    """The limits that differ from the defaults."""

    everywhere: Overrides = {}
    models: Mapping[str, Overrides] = {}
    sites: Mapping[str, Overrides] = {}

    def of(self, site: str | None, model: str | None) -> Overrides:
        """Return the limits for a resource of this site and model, such as a node."""
        if not self.sites and not self.models:
            return self.everywhere
        return {**self.everywhere, **self.models.get(model or "", {}), **self.sites.get(site or "", {})}

    def all(self) -> Mapping[tuple[str | None, str | None], Overrides]:
        """Return the result of `of` for each pair of a site and a model. None stands for all sites or models that set
        no limit."""
        return {(s, m): self.of(s, m) for s, m in product((None, *self.sites), (None, *self.models))}


class ClockedState(msgspec.Struct, frozen=True):
    """A state that has a clock: its metric labels, the key and the default of its limit, and a note about the
    default."""

    kind: str
    state: str
    substate: str
    key: str
    default: timedelta | None
    note: str = ""


def limit_key(prefix: str, state: str) -> str:
    """Return the name of a limit in the configuration, such as `network_segment.deleting.db_delete`."""
    return f"{prefix}.{state.replace(SUBSTATE, '.')}"


def places_of(specs: Iterable[KindSpec]) -> Iterator[ClockedState]:
    """Yield every state of resources of these kinds, by kind and layer. Terminal states are omitted, because they have
    no limit."""
    for spec in specs:
        substates = {layer.inside: layer for layer in spec.every_layer}
        for layer in spec.every_layer:
            for state, default in layer.states.items() if layer.inside is None else ():
                if inner := substates.get((layer.name, state)):
                    for substate, own in inner.states.items():
                        key = limit_key(inner.key, substate)
                        yield ClockedState(layer.label, str(state), str(substate), key, own.limit, own.note)
                elif state not in layer.terminal:
                    yield ClockedState(
                        layer.label, *label(str(state)), limit_key(layer.key, state), default.limit, default.note
                    )


STATES: tuple[ClockedState, ...] = tuple(places_of((node_spec.SPEC,)))
"""Every state of a node and its workflows. A running workflow has one element for each stage."""

PLACES: tuple[ClockedState, ...] = (
    *STATES,
    *(
        ClockedState(layers.LAYER_KIND[layer], END_TO_END, "", f"{layer}.{END_TO_END}", limit)
        for layer, limit in sla.END_TO_END.items()
    ),
)
"""Everything with a clock: the states, and each whole workflow."""

KEYS: frozenset[str] = frozenset(place.key for place in PLACES)
"""The keys of all limits of nodes."""


class LimitRule(msgspec.Struct, frozen=True):
    """A limit in force. `scope` is `site`, `model`, or empty. An empty scope stands for all resources whose site and
    model set no limit."""

    kind: str
    state: str
    substate: str
    scope: str
    name: str
    lasts: timedelta


def rules(limits: Limits, places: Iterable[ClockedState] = PLACES) -> Iterator[LimitRule]:
    """Yield all limits in force, including the defaults."""
    for place in places:
        of = place.kind, place.state, place.substate
        lasts = limits.everywhere.get(place.key, place.default)
        if lasts is not None:
            yield LimitRule(*of, "", "", lasts)
        for scope, named in (("model", limits.models), ("site", limits.sites)):
            for name, overrides in named.items():
                if place.key in overrides:
                    yield LimitRule(*of, scope, name, overrides[place.key])


def keys_of(specs: Iterable[KindSpec]) -> frozenset[str]:
    """Return the keys of all limits of these kinds."""
    return frozenset(place.key for place in places_of(specs))


class KindRule(msgspec.Struct, frozen=True):
    """A configured limit of a registered kind. `scope` has the same meaning as in `LimitRule`."""

    kind: str
    state: str
    scope: str
    name: str
    lasts: timedelta


def kind_rules(limits: Limits) -> Iterator[KindRule]:
    """Yield the configured limits of registered kinds. The default limits of these kinds are in the database."""
    for scope, named in (("", {"": limits.everywhere}), ("model", limits.models), ("site", limits.sites)):
        for name, overrides in named.items():
            for key, lasts in overrides.items():
                if key not in KEYS:
                    kind, _, state = key.partition(".")
                    yield KindRule(kind, state.replace(".", SUBSTATE), scope, name, lasts)
