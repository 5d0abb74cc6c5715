"""Refuses filters of history that can match nothing, because a kind, a layer or a state is misspelt."""

from __future__ import annotations

import typer

from farrier.cli.connection import Session
from farrier.config.reading import nearest
from farrier.model import filter_names
from farrier.model.filter_names import Unknown
from farrier.model.history import HistoryFilter, Order


async def refuse_unknown(session: Session, wanted: HistoryFilter) -> None:
    """Raise a usage error for a kind, layer or state that no resource has or had."""
    if not filter_names.names_any(wanted):
        return
    kinds = await session.resources.kinds(counted=False)
    for kind in filter_names.unknown_kinds(wanted, kinds):
        former = HistoryFilter(kinds=(kind.value,))
        if not (await session.queries.history(former, order=Order.OF_A_KIND, limit=1)).changes:
            raise typer.BadParameter(_text(kind))
    for each in filter_names.unknown_places(wanted, kinds):
        raise typer.BadParameter(f"--{each.field}: {_text(each)}")


def _text(unknown: Unknown) -> str:
    hint = f" ({unknown.hint})" if unknown.hint else ""
    return f"no {unknown.what} is named {unknown.value!r}; {nearest(unknown.value, unknown.known)}{hint}"
