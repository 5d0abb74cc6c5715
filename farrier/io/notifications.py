"""Runs LISTEN on a separate connection, and tests that notifications arrive. Implements `protocols.Notifications`.

A pooled connection cannot listen, because it is given back without a reset, and a pooler may run each transaction in
another session. The test sends its notification from a second connection. If a session sends a notification to itself,
PostgreSQL delivers it with the reply to the statement, even if no other notification arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio

from farrier.errors import DatabaseUnreachable
from farrier.io import pool, statements

_WAKE = "farrier_wake"
_PROBE_CHANNEL = "farrier_probe"
_PROBE = statements.load("wakes/probe")

# Only one attempt is made, because the listener retries with back-off.
_CONNECT_PATIENCE = timedelta(0)


class _Subscription:
    """Implements `protocols.Subscription` on one connection."""

    def __init__(
        self, dsn: str, conn: pool.Single, wake: Callable[[str], None], *, patience: timedelta, timeouts: pool.Timeouts
    ) -> None:
        self._dsn = dsn
        self._conn = conn
        self._wake = wake
        self._patience = patience
        self._timeouts = timeouts
        self._something = anyio.Event()
        self._proofs: set[str] = set()

    async def begin(self) -> None:
        self._conn.add_termination_listener(self._ended)
        await self._conn.add_listener(_WAKE, self._hear)
        await self._conn.add_listener(_PROBE_CHANNEL, self._hear)

    async def watch(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while True:
                await self._next()

    async def prove(self) -> None:
        proof = uuid4().hex
        with anyio.move_on_after(self._patience.total_seconds()):
            await self._send(proof)
            while proof not in self._proofs:
                await self._next()
        if proof not in self._proofs:
            raise DatabaseUnreachable(
                pool.redacted(self._dsn),
                "LISTEN receives no notifications: the connection is dead, or a pooler in transaction mode is "
                "between farrier and the server",
            )
        self._proofs.clear()

    async def _send(self, proof: str) -> None:
        sender = await pool.reconnect(self._dsn, patience=_CONNECT_PATIENCE, pgbouncer=True, timeouts=self._timeouts)
        try:
            await sender.execute(_PROBE, proof)
        except pool.CONNECTION_ERRORS as error:
            raise DatabaseUnreachable(pool.redacted(self._dsn), str(error) or type(error).__name__) from error
        finally:
            sender.terminate()

    async def _next(self) -> None:
        """Wait for a proof. Raises if the connection is lost."""
        if self._conn.is_closed():
            raise DatabaseUnreachable(pool.redacted(self._dsn), "the listening connection was closed")
        self._something = anyio.Event()
        await self._something.wait()

    def _hear(self, _conn: Any, _pid: int, channel: str, payload: object) -> None:
        """Handle a notification. The driver calls this method for each notification."""
        if channel == _WAKE:
            self._wake(str(payload))
        else:
            self._proofs.add(str(payload))
            self._something.set()

    def _ended(self, _conn: Any) -> None:
        self._something.set()


class PostgresNotifications:
    """Implements `protocols.Notifications` for one database."""

    def __init__(
        self, dsn: str, *, patience: timedelta = timedelta(seconds=5), timeouts: pool.Timeouts = pool.BRIEF
    ) -> None:
        """`patience` is how long the notification of a test may take to arrive."""
        self._dsn = dsn
        self._patience = patience
        self._timeouts = timeouts

    @asynccontextmanager
    async def subscribe(self, wake: Callable[[str], None]) -> AsyncIterator[_Subscription]:
        conn = await pool.reconnect(self._dsn, patience=_CONNECT_PATIENCE, pgbouncer=True, timeouts=self._timeouts)
        try:
            subscription = _Subscription(self._dsn, conn, wake, patience=self._patience, timeouts=self._timeouts)
            try:
                await subscription.begin()
            except pool.CONNECTION_ERRORS as error:
                raise DatabaseUnreachable(pool.redacted(self._dsn), str(error) or type(error).__name__) from error
            yield subscription
        finally:
            conn.terminate()
