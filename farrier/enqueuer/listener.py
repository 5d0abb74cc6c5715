"""Listens for notifications of wakes (LISTEN), and passes them to the loop.

The daemon runs a listener beside the controller. A notification only makes the loop react faster. If a notification is
lost with its connection, or a pooler in transaction mode never delivers it, the poll finds the wake a little later. So
the listener requests a poll whenever listening begins, and tests the connection every few seconds.

The listener has its own connection: a pooled connection cannot listen, because it is given back without a reset, and a
pooler may run each transaction in another session. The test sends its notification from a second connection. If a
session sends a notification to itself, PostgreSQL delivers it with the reply to the statement, even if no other
notification arrives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn
from uuid import uuid4

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.io import statements
from farrier.io.connections import pool
from farrier.model.intents.selection import LARGEST_ID

_log = structlog.stdlib.get_logger(__name__)

_WAKE = "farrier_wake"
_PROBE_CHANNEL = "farrier_probe"
_PROBE = statements.load("wakes/probe")

# Only one attempt is made, because the listener retries with back-off.
_CONNECT_PATIENCE = timedelta(0)
_FIRST_PAUSE = timedelta(milliseconds=100)
# After an outage, the listener reconnects within this time. The poll finds wakes meanwhile.
_LONGEST_PAUSE = timedelta(seconds=10)


class Listener:
    """Passes the resources of each notification to `wake`, and calls `missed` whenever notifications may have been
    missed. A notification is `KIND:ID,ID`, or `KIND:*` for more IDs than it can contain, or `shards` when a controller
    has given shards back."""

    def __init__(
        self,
        dsn: str,
        *,
        wake: Callable[[str, Sequence[int] | None], None],
        missed: Callable[[], None],
        timeouts: pool.Timeouts = pool.BRIEF,
        patience: timedelta = timedelta(seconds=5),
        test_every: timedelta = timedelta(seconds=10),
    ) -> None:
        """`wake` takes a kind and IDs; it takes None instead of the IDs if the notification has none. `patience` is how
        long the notification of a test may take to arrive."""
        self._dsn = dsn
        self._wake = wake
        self._missed = missed
        self._timeouts = timeouts
        self._patience = patience
        self._test_every = test_every
        self._failures = 0
        # The notification that the running test waits for. No other notification on the channel is kept: other
        # controllers test their listeners there, and any login may send there.
        self._awaited: str | None = None
        self._something = anyio.Event()

    async def run(self) -> NoReturn:
        """Listen until cancelled, and reconnect with back-off."""
        while True:
            try:
                await self.listen()
            except DatabaseUnreachable as error:
                self._failures += 1
                pause = self._pause()
                _log.warning("listen.lost", error=str(error), next_try_in=round(pause, 2))
                await anyio.sleep(pause)

    async def listen(self) -> NoReturn:
        """Listen on one connection until it is lost, and test it regularly. Raises `DatabaseUnreachable`."""
        conn = await self._connect()
        try:
            conn.add_termination_listener(self._ended)
            await conn.add_listener(_WAKE, self._hear)
            await conn.add_listener(_PROBE_CHANNEL, self._hear)
            await self._prove(conn)
            self._failures = 0
            _log.info("listen.begun")
            self._missed()
            while True:
                with anyio.move_on_after(self._test_every.total_seconds()):
                    while True:
                        await self._next(conn)
                await self._prove(conn)
        except pool.CONNECTION_ERRORS as error:
            raise DatabaseUnreachable(pool.redacted(self._dsn), str(error) or type(error).__name__) from error
        finally:
            conn.terminate()

    async def _connect(self) -> pool.Single:
        return await pool.reconnect(self._dsn, patience=_CONNECT_PATIENCE, pgbouncer=True, timeouts=self._timeouts)

    async def _prove(self, conn: pool.Single) -> None:
        """Send a notification and wait for it. Raises `DatabaseUnreachable` if the notification does not arrive. The
        cause is a dead connection that reported no error, or a pooler that runs each transaction in another session."""
        self._awaited = proof = uuid4().hex
        with anyio.move_on_after(self._patience.total_seconds()):
            sender = await self._connect()
            try:
                await sender.execute(_PROBE, proof)
            finally:
                sender.terminate()
            while self._awaited is not None:
                await self._next(conn)
        if self._awaited is not None:
            raise DatabaseUnreachable(
                pool.redacted(self._dsn),
                "LISTEN receives no notifications: the connection is dead, or a pooler in transaction mode is "
                "between farrier and the server",
            )

    async def _next(self, conn: pool.Single) -> None:
        """Wait for a proof. Raises if the connection is lost."""
        if conn.is_closed():
            raise DatabaseUnreachable(pool.redacted(self._dsn), "the listening connection was closed")
        self._something = anyio.Event()
        await self._something.wait()

    def _hear(self, _conn: Any, _pid: int, channel: str, payload: object) -> None:
        """Handle a notification. The driver calls this method for each notification. An invalid notification is logged,
        because any login may send notifications on any channel."""
        text = str(payload)
        if channel == _PROBE_CHANNEL:
            if text == self._awaited:
                self._awaited = None
                self._something.set()
            return
        kind, _, ids = text.partition(":")
        try:
            self._wake(kind, [_id(each) for each in ids.split(",")] if ids and ids != "*" else None)
        except ValueError:
            _log.warning("listen.malformed", text=text[:80])

    def _ended(self, _conn: Any) -> None:
        self._something.set()

    def _pause(self) -> float:
        """Return the pause in seconds, which doubles with each failure in a row. The pause includes a random factor, so
        that replicas do not all reconnect at the same moment."""
        longest = _LONGEST_PAUSE.total_seconds()
        return min(longest, _FIRST_PAUSE.total_seconds() * 2.0 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)


def _id(text: str) -> int:
    """Parse an ID. Raises ValueError, also for an ID above bigint, with which every load would fail."""
    id_ = int(text)
    if not 0 < id_ <= LARGEST_ID:
        raise ValueError(text)
    return id_
