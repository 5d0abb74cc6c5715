"""A server of the pages or of the agents in this process, with the login of such a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace

from farrier.config import Config
from farrier.model.loop.doors import DoorKind
from farrier.server import Server
from tests.support import logins, pg


@asynccontextmanager
async def server(db: pg.Database, config: Config, kind: DoorKind = DoorKind.PAGES) -> AsyncIterator[str]:
    """`farrier serve` on the database of a test, at any free port. Yields its URL."""
    dsn = await logins.dsn_of(db, *logins.ROLES[kind])
    config = replace(
        config,
        database=replace(config.database, dsn=dsn),
        http=replace(config.http, port=0),
        agents=replace(config.agents, port=0),
    )
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        yield await tasks.start(Server(config, stop, kind=kind).run)
        stop.set()
