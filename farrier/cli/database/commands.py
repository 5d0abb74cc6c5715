"""`farrier db`: migrates, checks and prints the schema, creates the roles, and prints the embedded server's DSN. Module
`restore` has the commands for a restored database."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
import typer

from farrier.cli import group
from farrier.cli.database import migration, restore
from farrier.cli.output import printing
from farrier.cli.settings.connection import administer, located, with_settings
from farrier.config import Config
from farrier.errors import ConfigError, SchemaEdited
from farrier.io.calls import identities
from farrier.io.connections.embedded import EmbeddedServer
from farrier.io.connections.pool import Single
from farrier.io.schema import catalog, migrate, plan, text

_NOT_COMPARABLE = (
    "functions, views and triggers were applied on another major version of PostgreSQL, so "
    "this check could find only missing objects; to find objects that were edited by hand, "
    "run farrier db migrate, and then repeat this check"
)

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
        migration.show_plan(planned, as_json=as_json)
        planned.require_free_way()
    else:
        migration.show_done(administer(settings, partial(migrate.migrate, after=catalog.sync)), as_json=as_json)


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


db.command("restored")(restore.restored)
db.command("moved")(restore.moved)
db.command("holds")(restore.holds)
db.command("lift")(restore.lift)


async def _checked(conn: Single) -> tuple[migrate.SchemaStatus, tuple[identities.Duplicate, ...]]:
    """Return the status of the schema. If the schema has the required version, also return the machines that several
    nodes have recorded."""
    status = await migrate.inspect(conn)
    return status, await identities.duplicates(conn) if status.found == status.needed else ()
