"""Refuses filters of history that cannot match any change, because a kind, a layer or a state is misspelt."""

from __future__ import annotations

from farrier.config.reading import nearest
from farrier.errors import MalformedRequest
from farrier.io import reading, statements
from farrier.io.pool import Connection
from farrier.model import filter_names
from farrier.model.history import HistoryFilter
from farrier.model.resource_views import KindView

_KINDS = statements.load("resources/kinds")
_FORMER = statements.load("queries/former_kinds")


async def refuse(conn: Connection, wanted: HistoryFilter) -> None:
    """Raise MalformedRequest if the filter names a kind, layer or state that no resource has or had."""
    if not filter_names.names_any(wanted):
        return
    kinds = await reading.fetch(conn, KindView, _KINDS, None, False)
    former = {record[0] for record in await conn.fetch(_FORMER, list(wanted.kinds))}
    for each in filter_names.unknown(wanted, kinds, former):
        text = f"{each.field}: no {each.what} is named {each.value!r}; {nearest(each.value, each.known)}"
        raise MalformedRequest(text, hint=each.hint)
