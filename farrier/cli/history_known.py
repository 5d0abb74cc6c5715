"""Refuses filters of history that can match nothing, because a kind, a layer or a state is misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import typer

from farrier.cli.connection import Session
from farrier.config.reading import nearest
from farrier.model.details import DETAILS
from farrier.model.edges import NODE
from farrier.model.history import HistoryFilter, Order

# The values of a detail are no states.
_DETAILS = "details."
_LAYERS_WITHOUT_STATES: Mapping[str, dict[str, frozenset[str]]] = {
    NODE: {f"{_DETAILS}{name}": frozenset() for name in DETAILS}
}


async def refuse_unknown(session: Session, wanted: HistoryFilter) -> None:
    """Raise a usage error for a kind, layer or state that no resource has or had."""
    kinds = wanted.kinds if wanted.resource is None else (wanted.resource[0],)
    if not (kinds or wanted.layers or wanted.sources or wanted.targets):
        return
    known = {
        each.kind: {
            layer: frozenset(state.state for state in each.states if state.layer == layer)
            for layer in {state.layer for state in each.states}
        }
        | _LAYERS_WITHOUT_STATES.get(each.kind, {})
        for each in await session.resources.kinds(counted=False)
    }
    for kind in kinds:
        if kind not in known and not await _was(session, kind):
            raise typer.BadParameter(f"no kind is named {kind!r}; {nearest(kind, sorted(known))}")
    if set(kinds) <= known.keys():
        _refuse(wanted, [known[kind] for kind in kinds or known])


async def _was(session: Session, kind: str) -> bool:
    """Whether the kind has history, which stays when a kind is removed."""
    page = await session.queries.history(HistoryFilter(kinds=(kind,)), order=Order.OF_A_KIND, limit=1)
    return bool(page.changes)


def _refuse(wanted: HistoryFilter, kinds: Iterable[Mapping[str, frozenset[str]]]) -> None:
    layers: dict[str, frozenset[str]] = {}
    for kind in kinds:
        for layer, states in kind.items():
            layers[layer] = layers.get(layer, frozenset()) | states
    for layer in wanted.layers:
        if layer not in layers:
            raise typer.BadParameter(f"--layer: no layer is named {layer!r}; {nearest(layer, sorted(layers))}")
    chosen = wanted.layers or tuple(layers)
    if any(layer.startswith(_DETAILS) for layer in wanted.layers):
        return
    known = sorted({state for layer in chosen for state in layers[layer]})
    for option, given in (("--from", wanted.sources), ("--to", wanted.targets)):
        for state in given:
            if state not in known:
                hint = "for the value of a detail, add --layer details.NAME"
                raise typer.BadParameter(f"{option}: no state is named {state!r}; {nearest(state, known)} ({hint})")
