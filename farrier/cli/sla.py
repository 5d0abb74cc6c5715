"""`farrier sla`: lists the limits in force, and the nodes, MAAS regions and other resources above a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

import anyio
import msgspec
import typer

from farrier.cli import output
from farrier.cli.connection import Session, opened, with_database, with_settings
from farrier.config import Config, kinds
from farrier.errors import FarrierError
from farrier.model import duration, limits
from farrier.model.built_in import BUILT_IN
from farrier.model.limits import PLACES, Limits, places_of
from farrier.model.resource_views import KindView, late_clock
from farrier.model.views import Wanted

sla = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="List the limits of all states, and the resources above a limit.",
)


class Limit(msgspec.Struct, frozen=True):
    """One limit in force; `key` is its name in the table `section` of the configuration."""

    section: str
    key: str
    limit: timedelta | None
    changed: bool
    note: str = ""


@sla.command("list")
@with_settings
def list_(settings: Config, as_json: output.AsJson = False) -> None:
    """List the limit of every state and stage, then the limits of sites and models.

    With a database, the list includes kinds that are registered there but not in these settings.
    """
    known = (*BUILT_IN, *kinds.specs(settings.controller.kinds))
    others = anyio.run(_registered, settings, {spec.name for spec in known})
    found = (
        *(_limit(settings.sla, each.key, each.default, each.note) for each in (*PLACES, *places_of(known))),
        *_of_others(settings.sla, others),
        *_named(settings.sla),
    )
    if as_json:
        output.json(found)
        return
    output.table(
        ("FOR", "KEY", "LIMIT", "", "NOTE"),
        (
            (
                each.section.removeprefix("sla").removeprefix(".").replace(".", " ", 1) or "all",
                each.key,
                "none" if each.limit is None else duration.human(each.limit),
                "configured" if each.changed else "",
                each.note,
            )
            for each in found
        ),
    )


@sla.command("breaches")
@with_database
async def breaches(session: Session, as_json: output.AsJson = False) -> None:
    """List nodes above a limit, then other resources above a limit. Those furthest above the limit are first."""
    held = session.settings.sla
    page = await session.queries.overdue(Wanted(), held)
    others = await session.resources.late(held)
    resources = [(each, late_clock(each, others.now)) for each in others.rows]
    if as_json:
        output.json(
            [
                *({"node": o.node.name, "paused": o.node.paused, "clocks": o.clocks} for o in page.rows),
                *({"kind": each.kind, "resource": each.name, "clocks": (clock,)} for each, clock in resources),
            ]
        )
        return
    found = [(o.node.name, o.node.paused, clock) for o in page.rows for clock in o.clocks]
    found += [(f"{each.kind} {each.name}", None, clock) for each, clock in resources]
    if not found:
        typer.echo("no node or other resource is above a limit", err=True)
    output.table(
        ("NAME", "LAYER", "STATE", "FOR", "LIMIT", "ABOVE", "PAUSED"),
        (
            (
                name,
                clock.layer,
                output.state(clock.state),
                output.ago(clock.since, page.now),
                duration.human(clock.limit or timedelta(0)),
                duration.human(clock.above or timedelta(0)),
                paused or "",
            )
            for name, paused, clock in found
        ),
    )


async def _registered(settings: Config, known: set[str]) -> tuple[KindView, ...]:
    """The kinds that are stored only in the database. If the database does not respond, print a note and return
    none."""
    if not (settings.database.dsn or settings.database.embedded or settings.client.api):
        return ()
    try:
        async with opened(settings) as reached:
            return tuple(kind for kind in await reached.resources.kinds(counted=False) if kind.kind not in known)
    except FarrierError as error:
        typer.echo(f"limits of kinds that are stored only in the database are missing: {error}", err=True)
        return ()


def _of_others(held: Limits, registered: Iterable[KindView]) -> Iterator[Limit]:
    for kind in registered:
        for state in kind.states:
            if not state.terminal:
                yield _limit(held, limits.resource_key(state.label, state.state), state.lasts, state.why_none)


def _limit(held: Limits, key: str, default: timedelta | None, note: str = "") -> Limit:
    return Limit("sla", key, held.everywhere.get(key, default), key in held.everywhere, note)


def _named(held: Limits) -> Iterator[Limit]:
    for scope, named in (("model", held.models), ("site", held.sites)):
        for name, overrides in named.items():
            for key, limit in overrides.items():
                yield Limit(f"sla.{scope}.{name}", key, limit, changed=True)
