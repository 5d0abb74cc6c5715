"""`farrier sla`: lists the limits in force, and the nodes, MAAS regions and other resources above a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import anyio
import msgspec
import typer

from farrier.cli import group
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed, formed_once
from farrier.cli.settings.connection import CommandSession, opened, with_database, with_settings
from farrier.clock import wall
from farrier.config import Config, kinds
from farrier.errors import FarrierError
from farrier.model import duration
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node import limits
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import NODE
from farrier.model.node.limits import PLACES, Limits, places_of
from farrier.model.views.nodes import NodeFilter, Page
from farrier.model.views.resources import KindView, late_clock

sla = group("sla")


class Limit(msgspec.Struct, frozen=True):
    """A limit in force. `key` is its name in the table `section` of the configuration."""

    section: str
    key: str
    limit: timedelta | None
    changed: bool
    note: str = ""


@sla.command("list")
@with_settings
@formed_once
def list_(settings: Config, form: OutputFormat) -> None:
    """List the limit of every state and stage, and then the limits of sites and machine models.

    If a database responds, the list also includes kinds that are registered only in the database.
    """
    listed = Listing(
        columns=_LIMIT_COLUMNS,
        pages=lambda: lists.once(lambda: _limits(settings)),
        name=lambda limit: limit.key,
        id=lambda limit: (limit.section, limit.key),
        fields=Limit.__struct_fields__,
        none="there are no limits",
    )
    anyio.run(lists.show, listed, form)


async def _limits(settings: Config) -> Page[Limit]:
    known = (*BUILT_IN, *kinds.specs(settings.controller.kinds))
    others = await _registered(settings, {NODE, *(spec.name for spec in known)})
    found = (
        *(_limit(settings.sla, each.key, each.default, each.note) for each in (*PLACES, *places_of(known))),
        *_of_others(settings.sla, others),
        *_named(settings.sla),
    )
    return Page(wall(), found)


def _scope(limit: Limit, _: datetime) -> str:
    return limit.section.removeprefix("sla").removeprefix(".").replace(".", " ", 1) or "all"


_LIMIT_COLUMNS: tuple[Column[Limit], ...] = (
    Column("FOR", _scope),
    Column("KEY", lambda limit, _: limit.key),
    Column("LIMIT", lambda limit, _: "none" if limit.limit is None else duration.human(limit.limit)),
    Column("", lambda limit, _: "configured" if limit.changed else ""),
    Column("NOTE", lambda limit, _: limit.note),
)


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """A layer of a resource that is above its limit."""

    kind: str
    name: str
    paused: str | None
    layer: str
    state: str
    since: datetime
    limit: timedelta | None
    above: timedelta | None

    @property
    def resource(self) -> str:
        """The name of a node in the form that the node commands accept, or the kind and name of another resource."""
        return self.name if self.kind == NODE else f"{self.kind}/{self.name}"


@sla.command("breaches")
@with_database
@formed
async def breaches(session: CommandSession, form: OutputFormat) -> None:
    """List nodes above a limit, then other resources above a limit. Those furthest above the limit are first."""
    listed = Listing(
        columns=_BREACH_COLUMNS,
        pages=lambda: lists.once(lambda: _breaches(session)),
        name=lambda breach: breach.resource,
        id=lambda breach: (breach.resource, breach.layer),
        fields=Breach.__struct_fields__,
        none="no node or other resource is above a limit",
    )
    await lists.show(listed, form)


async def _breaches(session: CommandSession) -> Page[Breach]:
    held = session.settings.sla
    page = await session.queries.overdue(NodeFilter(), held)
    others = await session.queries.late(held)
    found = [_breach(NODE, row.node.name, row.node.paused, clock) for row in page.rows for clock in row.clocks]
    found += [_breach(row.kind, row.name, None, late_clock(row, others.now)) for row in others.rows]
    return Page(page.now, tuple(found))


def _breach(kind: str, name: str, paused: str | None, clock: StateClock) -> Breach:
    return Breach(
        kind=kind,
        name=name,
        paused=paused,
        layer=clock.layer,
        state=clock.state,
        since=clock.since,
        limit=clock.limit,
        above=clock.above,
    )


_BREACH_COLUMNS: tuple[Column[Breach], ...] = (
    Column("NAME", lambda breach, _: breach.resource),
    Column("LAYER", lambda breach, _: breach.layer),
    Column("STATE", lambda breach, _: printing.state(breach.state)),
    Column("FOR", lambda breach, now: printing.ago(breach.since, now), ages=True),
    Column("LIMIT", lambda breach, _: duration.human(breach.limit or timedelta(0))),
    Column("ABOVE", lambda breach, _: duration.human(breach.above or timedelta(0)), ages=True),
    Column("PAUSED", lambda breach, _: breach.paused),
)


async def _registered(settings: Config, known: set[str]) -> tuple[KindView, ...]:
    """Return the kinds that are only in the database; none, with a note, if it does not respond."""
    if not (settings.database.dsn or settings.database.embedded or settings.client.api):
        return ()
    try:
        async with opened(settings) as reached:
            return tuple(kind for kind in await reached.queries.kinds(counted=False) if kind.kind not in known)
    except FarrierError as error:
        typer.echo(f"the list lacks the limits of kinds that are registered only in the database: {error}", err=True)
        return ()


def _of_others(held: Limits, registered: Iterable[KindView]) -> Iterator[Limit]:
    for kind in registered:
        for state in kind.states:
            if not state.terminal:
                yield _limit(held, limits.limit_key(state.label, state.state), state.lasts, state.why_none)


def _limit(held: Limits, key: str, default: timedelta | None, note: str = "") -> Limit:
    return Limit("sla", key, held.everywhere.get(key, default), key in held.everywhere, note)


def _named(held: Limits) -> Iterator[Limit]:
    for scope, named in (("model", held.models), ("site", held.sites)):
        for name, overrides in named.items():
            for key, limit in overrides.items():
                yield Limit(f"sla.{scope}.{name}", key, limit, changed=True)
