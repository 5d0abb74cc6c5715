"""Rehearses the statements of the loop on each new connection of a pool, so that no wake waits until they are planned.

The first run of a statement in a session takes ten times as long as the next, because of the plans, also in functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeAlias
from uuid import UUID

import anyio
import asyncpg

from farrier.errors import DatabaseUnreachable
from farrier.io.connections import session
from farrier.io.connections.pool import Connection, Pool

Scene: TypeAlias = Sequence[tuple[Any, ...]]
"""Statements that run in one transaction, each with arguments for which it does nothing."""

NOBODY = UUID(int=0)
"""The ID of no controller, so it owns no shard."""

# A rehearsal takes a tenth of a second. It takes longer if a table is locked; other work must not wait for this lock.
_SECONDS = 1.0


class Rehearsal:
    """What each new connection of a pool rehearses. The pool calls this object before the connection serves."""

    def __init__(self) -> None:
        self._scenes: Sequence[Scene] = ()

    async def __call__(self, conn: Connection) -> None:
        """Run the scenes, and undo each. What the database refuses, or does not run in time, is planned when it is
        needed. Raises the error of a connection that can no longer be used."""
        with suppress(TimeoutError), anyio.move_on_after(_SECONDS):
            for scene in self._scenes:
                try:
                    async with session.undone(conn):
                        for statement, *arguments in scene:
                            await conn.fetch(statement, *arguments)
                except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                    if session.ends_connection(error):
                        raise

    async def begin(self, connections: Pool, scenes: Sequence[Scene]) -> None:
        """Rehearse these scenes from now on: open all connections of the pool anew, as many as the server accepts."""
        self._scenes = scenes
        await connections.expire_connections()
        with suppress(DatabaseUnreachable):
            async with AsyncExitStack() as held:
                for _ in range(connections.get_max_size()):
                    await held.enter_async_context(session.borrowed(connections))
