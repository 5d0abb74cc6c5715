"""`farrier monitor`: lists the monitors, and their reports that were not taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from farrier.cli import group
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model import duration
from farrier.model.monitors.monitor import MonitorView, RefusalView

monitor = group("monitor")


@monitor.command("list")
@with_database
@formed
async def list_(session: CommandSession, form: OutputFormat) -> None:
    """List the monitors, what each may state, and how many of its conditions stand."""
    listed = Listing(
        columns=_MONITORS,
        pages=lambda: lists.once(session.queries.monitors),
        name=lambda each: each.name,
        fields=MonitorView.__struct_fields__,
        none="there are no monitors; farrier.grant_monitor lets a monitor state conditions",
    )
    await lists.show(listed, form)


@monitor.command("refusals")
@with_database
@formed
async def refusals(
    session: CommandSession,
    form: OutputFormat,
    name: Annotated[str | None, typer.Argument(help="Name of a monitor. Default: all monitors.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of rows. The newest reports are first.")] = 100,
) -> None:
    """List the reports of monitors that were not taken, the newest first.

    farrier keeps the newest hundred of each monitor; reports of the same condition share a row.
    """
    listed = Listing(
        columns=_REFUSALS,
        pages=lambda: lists.once(lambda: session.queries.refusals(name, limit=limit)),
        name=lambda each: each.monitor,
        fields=RefusalView.__struct_fields__,
        none="every report was taken",
        newest=limit,
    )
    await lists.show(listed, form)


_MONITORS: tuple[Column[MonitorView], ...] = (
    Column("MONITOR", lambda each, _: each.name),
    Column("LOGIN", lambda each, _: each.login),
    Column("SITES", lambda each, _: ", ".join(each.sites)),
    Column("MAY STATE", lambda each, _: ", ".join(each.ids)),
    Column("EFFECT", lambda each, _: each.effect),
    Column("LASTS", lambda each, _: duration.human(timedelta(seconds=each.lasts_seconds))),
    Column("CONDITIONS", lambda each, _: str(each.conditions)),
    Column("UNKNOWN", lambda each, _: str(each.unknown)),
    Column("NOT TAKEN", lambda each, _: str(each.refused_now)),
    Column("IN TOTAL", lambda each, _: str(each.refused), wide=True),
    Column("GRANTED BY", lambda each, _: each.granted_by, wide=True),
    Column("GRANTED", lambda each, _: printing.moment(each.granted_at), wide=True),
)
_REFUSALS: tuple[Column[RefusalView], ...] = (
    Column("MONITOR", lambda each, _: each.monitor),
    Column("LAST", lambda each, now: printing.ago(each.last_at, now), ages=True),
    Column("TIMES", lambda each, _: str(each.times)),
    Column("NODE", lambda each, _: each.node),
    Column("CONDITION", lambda each, _: "/".join(filter(None, (each.id, each.target)))),
    Column("VERDICT", lambda each, _: each.verdict),
    Column("REASON", lambda each, _: each.reason),
    Column("FIRST", lambda each, _: printing.moment(each.first_at), wide=True),
)
