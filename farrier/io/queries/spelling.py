"""Refuses filters that cannot match anything, because a kind, a layer, a state or an action is misspelt."""

from __future__ import annotations

from collections.abc import Iterable

from farrier.config.reading import nearest
from farrier.errors import MalformedRequest
from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.queries import reading
from farrier.model.views import filter_names
from farrier.model.views.history import HistoryFilter
from farrier.model.views.resources import KindView

_KINDS = statements.load("resources/kinds")
_FORMER = statements.load("queries/former_kinds")


async def refuse(conn: Connection, wanted: HistoryFilter) -> None:
    """Raise MalformedRequest if the filter names a kind, layer or state that no resource has or had."""
    if not filter_names.names_any(wanted):
        return
    kinds = await _kinds(conn)
    former = {record[0] for record in await conn.fetch(_FORMER, list(wanted.kinds))}
    _refuse(filter_names.unknown(wanted, kinds, former))


async def refuse_states(conn: Connection, kind: str, states: tuple[str, ...]) -> None:
    """Raise MalformedRequest for a state that no resource of the kind has."""
    if states:
        _refuse(filter_names.unknown_states(states, await _kinds(conn, kind)))


async def refuse_intents(conn: Connection, kind: str | None, actions: tuple[str, ...]) -> None:
    """Raise MalformedRequest if the kind is not registered, or if the kind does not have one of the actions. If no kind
    is given, the actions of all kinds are accepted."""
    if kind is not None or actions:
        _refuse(filter_names.unknown_actions(kind, actions, await _kinds(conn)))


async def _kinds(conn: Connection, kind: str | None = None) -> tuple[KindView, ...]:
    return await reading.fetch(conn, KindView, _KINDS, kind, False)


def _refuse(found: Iterable[filter_names.UnknownName]) -> None:
    for each in found:
        text = f"{each.field}: no {each.what} is named {each.value!r}; {nearest(each.value, each.known)}"
        raise MalformedRequest(text, hint=each.hint)
