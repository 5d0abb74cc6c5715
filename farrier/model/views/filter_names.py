"""Finds misspelt kinds, layers, states and actions in a filter: names that no resource has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from farrier.model.kinds.spec import is_in
from farrier.model.node.details import DETAILS
from farrier.model.node.layers import NODE
from farrier.model.views.history import HistoryFilter
from farrier.model.views.resources import KindView

# The layer in which history records whether a brake holds a node. See farrier.record_holds and farrier.end_holds.
BRAKE, HELD, FREE = "brake", "held", "free"
# The values of a detail are not states.
_DETAILS = "details."
_LAYERS_BESIDES: Mapping[str, dict[str, frozenset[str]]] = {
    NODE: {f"{_DETAILS}{name}": frozenset() for name in DETAILS} | {BRAKE: frozenset({HELD, FREE})}
}


class UnknownName(msgspec.Struct, frozen=True):
    """A value of the parameter `field` that is not a known name, and a list of the known names."""

    field: str
    what: str
    value: str
    known: tuple[str, ...]
    hint: str = ""


def names_any(wanted: HistoryFilter) -> bool:
    """Return whether a filter names a kind, a layer or a state. If the filter selects a single resource, the kind of
    this resource is ignored."""
    return bool(wanted.kinds or wanted.layers or wanted.sources or wanted.targets)


def unknown(wanted: HistoryFilter, kinds: Sequence[KindView], former: Collection[str]) -> Iterator[UnknownName]:
    """Yield the filter's unknown names: kinds that neither exist nor existed, and layers and states that do not occur
    in the filter's kinds. If the filter names a former kind, any layer and state is accepted."""
    known = {each.kind: _layers(each) for each in kinds}
    for kind in wanted.kinds:
        if kind not in known and kind not in former:
            yield UnknownName("kind", "kind", kind, tuple(known))
    names = wanted.kinds if wanted.resource is None else wanted.resource[:1]
    if not set(names) <= known.keys():
        return
    layers: dict[str, frozenset[str]] = {}
    for kind in names or known:
        for layer, states in known[kind].items():
            layers[layer] = layers.get(layer, frozenset()) | states
    wrong = [layer for layer in wanted.layers if layer not in layers]
    yield from (UnknownName("layer", "layer", layer, tuple(sorted(layers))) for layer in wrong)
    if wrong or any(layer.startswith(_DETAILS) for layer in wanted.layers):
        return
    known_states = tuple(sorted({state for layer in wanted.layers or layers for state in layers[layer]}))
    for field, given in (("from", wanted.sources), ("to", wanted.targets)):
        for state in given:
            if state not in known_states:
                yield UnknownName(
                    field,
                    "state",
                    state,
                    known_states,
                    "to filter by a value of a detail, also give the layer details.NAME",
                )


def unknown_states(given: Iterable[str], kinds: Sequence[KindView]) -> Iterator[UnknownName]:
    """Yield the states that none of these kinds has. If `kinds` is empty, yield nothing, because the database then
    refuses the filter itself."""
    known = tuple(state.state for each in kinds for state in each.states)
    for state in given:
        if known and not any(is_in(each, state) for each in known):
            yield UnknownName("state", "state", state, known)


def unknown_actions(kind: str | None, actions: Iterable[str], kinds: Sequence[KindView]) -> Iterator[UnknownName]:
    """Yield the kind if it is not registered, and otherwise the actions that it does not have. If `kind` is None, an
    action may belong to any kind."""
    if kind is not None and kind not in (each.kind for each in kinds):
        yield UnknownName("kind", "kind", kind, tuple(each.kind for each in kinds))
        return
    known = tuple(
        dict.fromkeys(action.action for each in kinds if kind in (None, each.kind) for action in each.actions)
    )
    yield from (UnknownName("action", "action", action, known) for action in actions if action not in known)


def _layers(kind: KindView) -> dict[str, frozenset[str]]:
    layers: dict[str, frozenset[str]] = {}
    for state in kind.states:
        layers[state.layer] = layers.get(state.layer, frozenset()) | {state.state}
    return layers | _LAYERS_BESIDES.get(kind.kind, {})
