"""`farrier kind`: installs and removes kinds of resources from other packages, and lists all kinds."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier import clock
from farrier.cli import group
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.settings.connection import CommandSession, administer, with_database, with_settings
from farrier.config import Config
from farrier.io.connections.pool import Single
from farrier.model.views.nodes import Page
from farrier.model.views.resources import KindView

kind = group("kind")


@kind.command("list")
@with_database
@formed
async def list_(session: CommandSession, form: OutputFormat) -> None:
    """List all kinds, with their actions and the number of resources in each state."""

    async def read() -> Page[KindView]:
        return Page(clock.wall(), await session.queries.kinds())

    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(read),
        name=lambda each: each.kind,
        as_object=lambda each, _: printing.plain(each) | {_COUNT: each.count},
        fields=(*KindView.__struct_fields__, _COUNT),
        none="no kind is installed",
    )
    await lists.show(listed, form)


_COUNT = "count"
_COLUMNS: tuple[Column[KindView], ...] = (
    Column("KIND", lambda each, _: each.kind),
    Column("COUNT", lambda each, _: str(each.count)),
    Column("STATES", lambda each, _: ", ".join(f"{state.count} {state.state}" for state in each.states if state.count)),
    Column("ACTIONS", lambda each, _: ", ".join(action.action for action in each.actions)),
)


@kind.command("install")
@with_settings
def install(
    settings: Config,
    name: Annotated[
        str, typer.Argument(metavar="PACKAGE.MODULE:NAME", help="The Extension object that defines the kind.")
    ],
) -> None:
    """If the table of the kind does not exist, create it with the kind's SQL. Register the kind's states, edges and
    actions; if these change later, run the command again."""
    from farrier.io.kinds import packages  # these imports take a second, and --help need not wait for them
    from farrier.io.schema import catalog, migrate
    from farrier.wiring import kinds

    found = kinds.installable(kinds.extensions([name])[name])

    async def installed(conn: Single) -> bool:
        if not settings.database.dsn:  # no other command migrates an embedded database
            await migrate.migrate(conn, after=catalog.sync)
        (await migrate.check(conn)).require_current()
        return await packages.install(conn, found)

    new = administer(settings, installed)
    typer.echo(f"kind {found.spec.name}: {'installed' if new else 'updated'}, table {found.spec.relation}")


@kind.command("remove")
@with_settings
def remove(
    settings: Config,
    name: Annotated[str, typer.Argument(metavar="KIND", help="Name of the kind, as in farrier kind list.")],
) -> None:
    """Remove a kind of another package. All resources of the kind must have ended. The kind's table, history and
    intents are kept."""
    from farrier.io.kinds import packages
    from farrier.io.schema import migrate

    async def removed(conn: Single) -> None:
        (await migrate.check(conn)).require_current()
        await packages.remove(conn, name)

    administer(settings, removed)
    typer.echo(f"kind {name}: removed; its table, history and intents are kept")
