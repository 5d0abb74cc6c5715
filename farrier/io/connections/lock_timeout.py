"""Limits how long a change of tables waits for a lock, so that the wait does not block the loop. Retries the change.

While a statement waits for a lock on a table, it blocks every later statement on this table. Migrations and
installations of kinds use this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio
import asyncpg
import msgspec

from farrier import errors
from farrier.io import statements
from farrier.io.connections import session

if TYPE_CHECKING:
    from farrier.io.connections.pool import Connection

T = TypeVar("T")

# In a deadlock, the server cancels one of two sessions that each wait for a table of the other.
LOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
_WAIT_FOR_LOCK = statements.load("schema/wait_for_lock")


class LockPatience(msgspec.Struct, frozen=True):
    """The time that a change waits for a lock, the time that it pauses for other sessions, and the number of its
    attempts."""

    wait: timedelta
    pause: timedelta
    tries: int


PATIENT = LockPatience(wait=timedelta(seconds=2), pause=timedelta(seconds=5), tries=12)


async def patiently(
    conn: Connection, what: str, change: Callable[[], Awaitable[T]], patience: LockPatience = PATIENT
) -> T:
    """Run a change in a separate transaction, and repeat it after a lock conflict. If another transaction keeps the
    lock longer than `patience`, RefusedByModel is raised with `what`, and nothing has changed. If the connection is
    lost, DatabaseUnreachable is raised, and the change has happened completely or not at all.
    """
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
                    f"{what} waits for a table that another transaction, such as a dump or an idle session, has "
                    "locked; find the transaction in pg_stat_activity, end it, then try again"
                ) from locked
        except (*session.BROKEN, asyncpg.PostgresError) as error:
            if not session.ends_connection(error):
                raise
            # This includes a COMMIT whose reply did not arrive.
            raise errors.DatabaseUnreachable(
                "the server", f"the connection was lost; {what} is applied completely or not at all, so run it again"
            ) from error
        await anyio.sleep(patience.pause.total_seconds())
