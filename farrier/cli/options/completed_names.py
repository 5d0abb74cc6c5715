"""Completes names from the database in a shell: nodes and other resources, kinds, sites and actions.

The user waits for the completion. So the database must respond within a second, and no embedded server is started.
After an expected error, the shell completes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import anyio
import typer

from farrier import log
from farrier.cli.options.completion import Completion
from farrier.cli.settings import connection
from farrier.cli.settings.connection import CommandSession
from farrier.config import Config
from farrier.errors import FarrierError
from farrier.io.connections.embedded import EmbeddedServer, default_directory
from farrier.model.maas.region import SPEC
from farrier.model.node.layers import NODE
from farrier.model.views.nodes import NodeFilter
from farrier.model.views.resources import WantedResources

_PATIENCE_SECONDS = 1.0
# The largest number of names; a user would not read more.
_MOST = 200


def names_of(kind: str | None = None) -> Completion:
    """Return the function that completes the name of a resource of this kind. Default: the kind in the command line."""

    def completed(ctx: typer.Context, incomplete: str) -> Sequence[str]:
        chosen = kind or str(ctx.params.get("kind") or "")

        async def found(session: CommandSession) -> Iterable[str]:
            names = (f"{incomplete}*",)
            if chosen == NODE:
                return [
                    node.name for node in (await session.queries.inventory(NodeFilter(names=names), limit=_MOST)).rows
                ]
            page = await session.queries.resources(WantedResources(kind=chosen, names=names), limit=_MOST)
            return [resource.name for resource in page.rows]

        return _from_database(ctx, incomplete, found)

    return completed


node_names = names_of(NODE)
# The name of a site is also the name of its MAAS region.
sites = names_of(SPEC.name)


def kinds(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    """Complete the name of a kind."""

    async def found(session: CommandSession) -> Iterable[str]:
        return [kind.kind for kind in await session.queries.kinds(counted=False)]

    return _from_database(ctx, incomplete, found)


def actions(ctx: typer.Context, incomplete: str) -> Sequence[str]:
    """Complete the name of an action of the kind in the command line. If the command line has no kind, use nodes."""
    chosen = ctx.params.get("kind") or NODE

    async def found(session: CommandSession) -> Iterable[str]:
        kinds = await session.queries.kinds(counted=False)
        return [action.action for kind in kinds if kind.kind == chosen for action in kind.actions]

    return _from_database(ctx, incomplete, found)


def _from_database(
    ctx: typer.Context, incomplete: str, found: Callable[[CommandSession], Awaitable[Iterable[str]]]
) -> Sequence[str]:
    log.configure(log.Level.ERROR, log.Format.JSON)
    try:
        settings = connection.chosen_settings(ctx.params)
        if not _runs(settings):
            return []
        names = anyio.run(_within_patience, settings, found)
    except (FarrierError, TimeoutError, OSError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))


async def _within_patience(
    settings: Config, found: Callable[[CommandSession], Awaitable[Iterable[str]]]
) -> Iterable[str]:
    with anyio.fail_after(_PATIENCE_SECONDS):
        async with connection.opened(settings) as session:
            return await found(session)


def _runs(settings: Config) -> bool:
    """Return whether the configured server already runs, so that a connection does not start it."""
    database = settings.database
    return (
        bool(settings.client.api or database.dsn)
        or EmbeddedServer(Path(database.embedded or default_directory())).is_running()
    )
