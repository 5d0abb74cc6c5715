"""`farrier history`: lists, exports and prunes the history of the fleet.

Each command reads the history page by page, and keeps only one page in memory.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import anyio
import msgspec
import typer

from farrier.cli import group
from farrier.cli.history import changes
from farrier.cli.options import arguments
from farrier.cli.output import printing
from farrier.cli.output.lists import OutputFormat, formed_as_is
from farrier.cli.settings.connection import CommandSession, client, with_database, with_settings
from farrier.config import Config
from farrier.model.plural import counted
from farrier.model.views.history import HistoryFilter, HistoryKey, Order, parse_key, parse_resource

# If a controller loses the reply to a commit, it looks for the commit in the history, so younger entries must stay.
_YOUNGEST = timedelta(days=1)

history = group("history")

_Resource = Annotated[
    str | None, typer.Option(metavar="KIND/NAME", help="Show only changes of this resource: node/NAME or node/ID.")
]
_Kind = Annotated[
    list[str] | None,
    typer.Option(help="Show only changes of this kind of resource: node, maas_region, network_segment … Repeatable."),
]
_After = Annotated[str | None, typer.Option(metavar="KEY", help="Continue after the entry with this key.")]


@history.command("list")
@with_database
@changes.narrowed
@formed_as_is
async def list_(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    form: OutputFormat,
    wanted: HistoryFilter,
    resource: _Resource = None,
    kind: _Kind = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of entries. The newest entries are first.")] = 50,
    after: _After = None,
    follow: changes.Follow = False,
) -> None:
    """List changes of all resources, the newest first."""
    wanted = _of(wanted, resource, kind)
    if follow and after is not None:
        raise typer.BadParameter("--follow begins with the newest changes; leave out --after, or use history export")
    if follow:
        await changes.show_followed(session, wanted, newest=limit, form=form)
        return
    key = _key(after)
    pages = changes.walk(session, wanted, Order.NEWEST, after=key, most=limit)
    following = await changes.show(pages, form)
    if following is not None:
        typer.echo(f"for older entries: --after {following.text}", err=True)


@history.command("export")
@with_database
@changes.narrowed
async def export(
    session: CommandSession,
    wanted: HistoryFilter,
    resource: _Resource = None,
    kind: _Kind = None,
    after: _After = None,
) -> None:
    """Print changes as JSON Lines, the oldest first.

    The export ends at a time for which all earlier changes are already visible. This time is about three seconds before
    the start of the export. If a transaction that has written history is open for longer, the time is earlier. So a
    later export that continues after the last key misses no change.
    """
    wanted = _of(wanted, resource, kind)
    key = _key(after)
    printed = 0
    async for page in changes.walk(session, wanted, Order.OLDEST, after=key):
        printing.json_lines(map(changes.as_object, page.changes))
        printed += len(page.changes)
        key = page.reached or key
    more = "" if key is None else f"; for later entries: --after {key.text}"
    typer.echo(f"{counted(printed, 'change')}{more}", err=True)


@history.command("prune")
@with_settings
def prune(
    settings: Config,
    older_than: Annotated[str, typer.Option(help="Remove entries that are older than this, such as 90d. At least 1d.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing. Count the entries that would be removed.")
    ] = False,
) -> None:
    """Remove old changes now. The newest change of each layer stays until the resource is deleted."""
    age = arguments.patience("--older-than", older_than, least=_YOUNGEST)
    looked, deleted = anyio.run(_pruned, settings, age, not dry_run)
    what = "would be removed" if dry_run else "removed"
    typer.echo(
        f"{counted(deleted, 'entry')} {what}; {counted(looked - deleted, 'old entry')} kept, because each is the "
        "newest entry of its layer"
    )


async def _pruned(settings: Config, age: timedelta, really: bool) -> tuple[int, int]:
    looked = deleted = 0
    key = None
    async with client(settings) as reached:
        while True:
            step = await reached.retention.prune(age, after=key, really=really)
            looked, deleted, key = looked + step.looked, deleted + step.deleted, step.following
            if key is None:
                return looked, deleted


def _key(after: str | None) -> HistoryKey | None:
    with arguments.usage_errors():
        return None if after is None else parse_key(after)


def _of(wanted: HistoryFilter, resource: str | None, kinds: list[str] | None) -> HistoryFilter:
    with arguments.usage_errors("--resource"):
        one = None if resource is None else parse_resource(resource)
    return msgspec.structs.replace(wanted, resource=one, kinds=tuple(kinds or ()))
