"""`farrier db restored`, `moved`, `holds` and `lift`: what operators do after the restore of a backup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import anyio
import typer

from farrier.cli.intent import answers
from farrier.cli.options import bulk
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, administer, opened, with_database, with_settings
from farrier.config import Config
from farrier.errors import ExitCode
from farrier.io.calls import restores
from farrier.model.loop.restores import HoldChoice, HoldView, Lift, Lifted
from farrier.model.node.edges import NODE
from farrier.model.plural import counted

_Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only resources of this kind.")]
_Site = Annotated[str | None, typer.Option("--site", metavar="SITE", help="Only resources of this site.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@with_settings
def restored(settings: Config, yes: _Yes = False) -> None:
    """Hold every resource, because the database was restored from a backup. Run this command after a point-in-time
    recovery, before the replicas start. farrier recognises the restore of a dump by itself. Pending intents are
    rejected, and tasks are cancelled."""
    bulk.confirm("hold every resource, reject all pending intents and cancel all tasks", yes=yes)
    held = administer(settings, restores.restored)
    typer.echo(f"{counted(held, 'resource')} held; farrier db holds lists them")


@with_settings
def moved(settings: Config, yes: _Yes = False) -> None:
    """Record that this database is the same installation in a new place, such as after pg_upgrade, and lift all holds.
    Run this command before the replicas start. Do not run it after the restore of a backup."""
    bulk.confirm("lift all holds, so that farrier continues from the states in this database", yes=yes)
    lifted = administer(settings, restores.moved)
    typer.echo(f"farrier continues in this database; {counted(lifted, 'hold')} lifted")


@with_database
@formed
async def holds(session: CommandSession, form: OutputFormat, kind: _Kind = None, site: _Site = None) -> None:
    """List the resources that are held after a restore, with the difference that farrier has found. A resource without
    a difference is lifted by farrier db lift --all."""
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(lambda: session.queries.holds(kind, site)),
        name=lambda hold: hold.name,
        id=lambda hold: (hold.kind, hold.id),
        fields=HoldView.__struct_fields__,
        none="no resource is held; the holds after a restore begin when the first controller starts",
    )
    await lists.show(listed, form)


_COLUMNS: tuple[Column[HoldView], ...] = (
    Column("NAME", lambda hold, _: hold.name),
    Column("KIND", lambda hold, _: hold.kind),
    Column("SITE", lambda hold, _: hold.site),
    Column("HELD FOR", lambda hold, now: printing.ago(hold.since, now), ages=True),
    Column("CHOICE", lambda hold, _: hold.choice),
    Column("DIFFERENCE", lambda hold, _: hold.difference or "none"),
)


@with_settings
def lift(  # noqa: PLR0913 - the options of the command
    settings: Config,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of held resources.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Reason for lifting the holds, which farrier records.")] = "",
    kind: _Kind = None,
    site: _Site = None,
    every: Annotated[bool, typer.Option("--all", help="Lift every hold without a difference.")] = False,
    then: Annotated[
        HoldChoice | None,
        typer.Option(
            "--then",
            help="Lift a hold in spite of a difference: resume continues from the state in the backup; adopt accepts "
            "the observed state; end ends the work in the backup and changes nothing outside.",
        ),
    ] = None,
    requested_by: answers.By = None,
    as_json: printing.AsJson = False,
) -> None:
    """Lift holds after a restore: of the named resources, or with --all or --site of all resources without a
    difference. Names are names of nodes unless --kind is given. Exit code 3: a selected resource needs a choice."""
    if not reason:
        raise typer.BadParameter("--reason is missing; expected the reason for lifting the holds")
    if bool(names) == (every or site is not None):
        raise typer.BadParameter("expected names of held resources, or --all, or --site SITE")
    which = Lift(
        reason=reason,
        kind=kind or (NODE if names else None),
        names=tuple(names) if names else None,
        site=site,
        then=then,
        requested_by=requested_by,
    )
    lifted = anyio.run(_lift, settings, which)
    if as_json:
        printing.json(lifted)
    else:
        _print(lifted)
    if then is None and any(each.why is not None for each in lifted):
        raise typer.Exit(ExitCode.REFUSED)


async def _lift(settings: Config, which: Lift) -> tuple[Lifted, ...]:
    async with opened(settings) as reached:
        return await reached.requests.lift_holds(which)


def _print(lifted: Sequence[Lifted]) -> None:
    for each in lifted:
        if each.why is not None:
            typer.echo(f"{each.kind} {each.name}: {each.why}")
    typer.echo(f"{counted(sum(each.why is None for each in lifted), 'hold')} lifted")
