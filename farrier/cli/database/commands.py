"""`farrier db`: migrates, checks and prints the schema, creates the roles, prints the embedded server's DSN, and has
what operators do after the restore of a backup.

The plan of a migration has a row for each step and each object; its last line is the verdict. The report of a migration
has a line for each type of change. If there are many objects of a type, they are counted instead of listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
import typer

from farrier.cli import group
from farrier.cli.intent import answers
from farrier.cli.options import bulk
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, administer, located, opened, with_database, with_settings
from farrier.config import Config
from farrier.errors import ConfigError, ExitCode, SchemaEdited
from farrier.io.calls import identities, restores
from farrier.io.connections.embedded import EmbeddedServer
from farrier.io.connections.pool import Single
from farrier.io.schema import catalog, migrate, plan, text
from farrier.io.schema.migrate import Migrated
from farrier.io.schema.plan import MigrationPlan
from farrier.model.loop.restores import HoldChoice, HoldView, Lift, Lifted
from farrier.model.node.layers import NODE
from farrier.model.plural import counted

_NOT_COMPARABLE = (
    "functions, views and triggers were applied on another major version of PostgreSQL, so "
    "this check could find only missing objects; to find objects that were edited by hand, "
    "run farrier db migrate, and then repeat this check"
)
_NOTHING = "no migration is needed"
# The number of objects of a type that fit on a screen, and the number that fit on a line.
_MOST_ROWS = 40
_MOST_NAMES = 5
_COUNTED = {
    "function": "{} functions",
    "view": "{} views",
    "trigger": "{} triggers",
    "rights": "the rights of {} roles",
}

db = group("db")


@db.command("migrate")
@with_settings
def migrate_(
    settings: Config,
    only_plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Change nothing. Print the changes of the migration, and whether replicas can continue "
            "during the migration.",
        ),
    ] = False,
    as_json: printing.AsJson = False,
) -> None:
    """Migrate the schema to this program's version, and grant each role its rights. Several processes may run this
    command at the same time."""
    if only_plan:
        planned = administer(settings, plan.plan)
        _show_plan(planned, as_json=as_json)
        planned.require_free_way()
    else:
        _show_done(administer(settings, partial(migrate.migrate, after=catalog.sync)), as_json=as_json)


@db.command("check")
@with_settings
def check(settings: Config, as_json: printing.AsJson = False) -> None:
    """Check whether the schema fits this program. Exit code 0: it fits; 1: it is older, or was edited by hand; 5: it is
    newer. The command lists functions, views and triggers that were edited. It also lists nodes that have recorded the
    same machine. It does not check rights, triggers of kinds, or the columns, defaults, constraints and indexes of
    tables. `farrier db migrate` restores rights, and missing triggers of built-in kinds. `farrier kind install`
    restores missing triggers of other kinds. `farrier db schema` prints the expected tables."""
    status, shared = administer(settings, _checked)
    if as_json:
        printing.json({**msgspec.structs.asdict(status), "same_machine": shared})
    status.require_current()
    if not (as_json or status.comparable):
        typer.echo(_NOT_COMPARABLE)
    if status.edited:
        raise SchemaEdited(edited=status.edited)
    if not as_json:
        typer.echo(f"schema version {status.found}, as this program requires")
        for machine in shared:
            typer.echo(f"nodes {', '.join(machine.nodes)} recorded the same machine: their {machine.kind} is the same")


@db.command("schema")
def schema(
    topic: Annotated[
        str | None, typer.Option(help="Print only the objects of this topic: nodes, tasks, rights …")
    ] = None,
) -> None:
    """Print the whole schema of this program as one SQL file: tables, functions, views, triggers, rights. Requires no
    database."""
    carried = migrate.carried()
    if topic is None:
        typer.echo(text.whole(carried), nl=False)
    elif topic in (known := text.topics(carried)):
        typer.echo(text.of_topic(carried, topic), nl=False)
    else:
        raise typer.BadParameter(f"no topic {topic!r}; expected one of {', '.join(known)}")


@db.command("roles")
@with_settings
def roles(settings: Config) -> None:
    """Create the missing roles of farrier. Requires CREATEROLE. The next `farrier db migrate` grants the roles their
    rights."""
    administer(settings, migrate.create_roles)
    typer.echo(
        "the roles farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_monitor and "
        "farrier_reader exist; farrier db migrate grants their rights"
    )


@db.command("url")
@with_settings
def url(settings: Config) -> None:
    """Start the embedded server if it does not run, and print its DSN. The server keeps running."""
    if settings.database.dsn:
        typer.echo(anyio.run(located, settings).dsn)
        return
    if not settings.database.embedded:
        raise ConfigError("no embedded server is configured; use --embedded DIR, or set database.embedded")
    typer.echo(EmbeddedServer(Path(settings.database.embedded)).start())


async def _checked(conn: Single) -> tuple[migrate.SchemaStatus, tuple[identities.Duplicate, ...]]:
    """Return the status of the schema and, if it is current, the machines that several nodes have recorded."""
    status = await migrate.inspect(conn)
    return status, await identities.duplicates(conn) if status.found == status.needed else ()


def _show_plan(planned: MigrationPlan, *, as_json: bool) -> None:
    if as_json:
        steps = [{"version": s.version, "name": s.name, "replicas_go_on": s.replicas_go_on} for s in planned.steps]
        printing.json({**msgspec.structs.asdict(planned), "steps": steps, "replicas_go_on": not planned.stops})
        return
    tables = [("make", "tables", "", "")] if planned.release is None else []
    applied = [("apply", f"version {step.version}", step.name, "") for step in planned.steps]
    printing.table(("", "what", "name", ""), [*tables, *applied, *_rows(planned.would)])
    for obstacle in (*planned.namesakes, *planned.in_the_way):
        typer.echo(f"blocked by: {obstacle}")
    typer.echo(_verdict(planned))


def _show_done(done: Migrated, *, as_json: bool) -> None:
    if as_json:
        printing.json(done)
    elif not done:
        typer.echo(_NOTHING)
    else:
        names = (*_by_verb(done, ("made", "replaced", "dropped")), ("edited by hand before", done.edited))
        version = f"version {done.versions[-1]}" if done.versions else None
        printing.facts([("migrated to", version), *((verb, _listed(of_verb)) for verb, of_verb in names)])


def _verdict(planned: MigrationPlan) -> str:
    if not planned.would:
        return _NOTHING
    if planned.release is None:
        return "a new database without replicas"
    if planned.stops:
        return f"stop replicas of farrier {planned.release} first: {'; '.join(planned.stops)}"
    return f"replicas of farrier {planned.release} can continue during the migration"


def _by_verb(done: Migrated, verbs: tuple[str, str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Return the lines about created, replaced and dropped objects."""
    return zip(verbs, (done.made, [name for name in done.changed if name not in done.made], done.dropped), strict=True)


def _by_kind(names: Sequence[str]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.partition(" ")[0], []).append(name)
    return kinds


def _rows(would: Migrated) -> Iterator[tuple[str, str, str, str]]:
    for verb, names in _by_verb(would, ("make", "replace", "drop")):
        for kind, of_kind in _by_kind(names).items():
            edited = [name for name in of_kind if name in would.edited]
            others = [name for name in of_kind if name not in would.edited]
            if len(others) > _MOST_ROWS:
                yield verb, _COUNTED[kind].format(len(others)), "", ""
                others = []
            yield from ((verb, kind, name.partition(" ")[2], "") for name in others)
            yield from ((verb, kind, name.partition(" ")[2], "edited by hand") for name in edited)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return ", ".join(
        of_kind[0] if len(of_kind) == 1 else _COUNTED[kind].format(len(of_kind))
        for kind, of_kind in _by_kind(names).items()
    )


_Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only resources of this kind.")]
_Site = Annotated[str | None, typer.Option("--site", metavar="SITE", help="Only resources of this site.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@db.command("restored")
@with_settings
def restored(settings: Config, yes: _Yes = False) -> None:
    """Hold every resource, because the database was restored from a backup. Run this command after a point-in-time
    recovery, before the replicas start. farrier recognises the restore of a dump by itself. Pending intents are
    rejected, and tasks are cancelled."""
    bulk.confirm("hold every resource, reject all pending intents and cancel all tasks", yes=yes)
    held = administer(settings, restores.restored)
    typer.echo(f"{counted(held, 'resource')} held; farrier db holds lists them")


@db.command("moved")
@with_settings
def moved(settings: Config, yes: _Yes = False) -> None:
    """Record that this database is the same installation in a new place, such as after pg_upgrade, and lift all holds.
    Run this command before the replicas start. Do not run it after the restore of a backup."""
    bulk.confirm("lift all holds, so that farrier continues from the states in this database", yes=yes)
    lifted = administer(settings, restores.moved)
    typer.echo(f"farrier continues in this database; {counted(lifted, 'hold')} lifted")


@db.command("holds")
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


@db.command("lift")
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
        _print_lifted(lifted)
    if then is None and any(each.why is not None for each in lifted):
        raise typer.Exit(ExitCode.REFUSED)


async def _lift(settings: Config, which: Lift) -> tuple[Lifted, ...]:
    async with opened(settings) as reached:
        return await reached.requests.lift_holds(which)


def _print_lifted(lifted: Sequence[Lifted]) -> None:
    for each in lifted:
        if each.why is not None:
            typer.echo(f"{each.kind} {each.name}: {each.why}")
    typer.echo(f"{counted(sum(each.why is None for each in lifted), 'hold')} lifted")
