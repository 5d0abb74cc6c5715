"""How long a change of tables waits for a lock, so that it holds nobody up: briefly, and again after a while.

Whoever waits for a lock on a table makes everybody wait who wants the table after him, the loop's own reads too.
Called by migrations and by installations of kinds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio
import asyncpg
import msgspec

from farrier import errors
from farrier.io import session, statements

if TYPE_CHECKING:
    from farrier.io.pool import Connection

T = TypeVar("T")

# The server ends one of two that hold a table each and want that of the other.
LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
_WAIT_FOR_LOCK = statements.load("schema/wait_for_lock")


class LockPatience(msgspec.Struct, frozen=True):
    """How long a change waits for a lock at a time, how long it lets others pass, and how often it tries."""

    wait: timedelta
    pause: timedelta
    tries: int


PATIENT = LockPatience(wait=timedelta(seconds=2), pause=timedelta(seconds=5), tries=12)


async def patiently(
    conn: Connection, what: str, change: Callable[[], Awaitable[T]], patience: LockPatience = PATIENT
) -> T:
    """Run a change in a transaction of its own, again where it met a lock. Raises RefusedByModel, which tells of
    `what`, when that is kept for longer than `patience`; nothing has changed then. Raises DatabaseUnreachable when the
    connection is lost; all has changed then, or nothing."""
    tries_left = patience.tries
    while True:
        tries_left -= 1
        try:
            async with conn.transaction():
                await conn.execute(_WAIT_FOR_LOCK, f"{patience.wait // timedelta(milliseconds=1)}ms")
                return await change()
        except LOCKED as locked:
            if not tries_left:
                raise errors.RefusedByModel(
                    f"{what} needs a table that a transaction elsewhere keeps locked, such as a dump or a forgotten "
                    "session; end it (pg_stat_activity tells which), then try again"
                ) from locked
        except (*session.BROKEN, asyncpg.PostgresError) as error:
            if not session.ends_connection(error):
                raise
            # Also where COMMIT was sent, to which no reply came.
            raise errors.DatabaseUnreachable(
                "the server", f"the connection was lost; {what} is applied whole or not at all: run it again"
            ) from error
        await anyio.sleep(patience.pause.total_seconds())
