"""`farrier sla`: the limits in force, and the nodes that are above one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import typer

from farrier.cli import output
from farrier.cli.connection import Session, with_database, with_settings
from farrier.config import Config
from farrier.model import duration
from farrier.model import sla as limits
from farrier.model.views import Wanted
from farrier.model.workflow import WorkflowStatus

sla = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="How long nodes may stay in each state, and which have stayed for longer.",
)


class Limit(msgspec.Struct, frozen=True):
    """One limit as it is in force; `key` is its name in [sla] of the configuration."""

    key: str
    limit: timedelta | None
    changed: bool
    note: str = ""


@sla.command("list")
@with_settings
def list_(settings: Config, as_json: output.AsJson = False) -> None:
    """List the limit of every state and stage, as the configuration has it."""
    found = tuple(_limits(settings))
    if as_json:
        output.json(found)
        return
    output.table(
        ("KEY", "LIMIT", "", "NOTE"),
        (
            (
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
    """List the nodes that are above a limit, the worst first."""
    page = await session.queries.overdue(Wanted(), session.settings.sla)
    if as_json:
        output.json([{"node": overdue.node.name, "clocks": overdue.clocks} for overdue in page.rows])
        return
    if not page.rows:
        typer.echo("no node is above a limit", err=True)
    output.table(
        ("NODE", "LAYER", "STATE", "FOR", "LIMIT", "ABOVE"),
        (
            (
                overdue.node.name,
                clock.layer,
                output.state(clock.state),
                output.ago(clock.since, page.now),
                duration.human(clock.limit or timedelta(0)),
                duration.human(clock.above or timedelta(0)),
            )
            for overdue in page.rows
            for clock in overdue.clocks
        ),
    )


def _limits(settings: Config) -> Iterator[Limit]:
    for layer, states in limits.DEFAULTS.items():
        for state, default in states.items():
            if layer not in limits.STAGES or state != WorkflowStatus.RUNNING:
                yield _limit(settings, limits.key(layer, state), default.limit, default.note)
        for stage, limit in limits.STAGES.get(layer, {}).items():
            yield _limit(settings, f"{layer}.{WorkflowStatus.RUNNING}.{stage}", limit)
        if layer in limits.END_TO_END:
            yield _limit(settings, f"{layer}.end_to_end", limits.END_TO_END[layer])


def _limit(settings: Config, key: str, default: timedelta | None, note: str = "") -> Limit:
    changed = key in settings.sla
    return Limit(key, settings.sla.get(key, default), changed, note)
