"""The server runs and refuses new connections: commands say why, and daemons go on until it accepts them again."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import pytest

from farrier import errors
from farrier.io.connections import pool, session
from farrier.io.connections.pool import Single
from tests.support import pg
from tests.support.process import replica, until

END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"


class Guarded(NamedTuple):
    """A database, and a session elsewhere on its server that can close it to new connections."""

    name: str
    dsn: str
    server: Single

    async def refuse(self, statement: str) -> None:
        """Refuse new connections, and end the existing ones."""
        await self.server.execute(statement.format(self.name))
        await self.server.execute(END_SESSIONS, self.name)


@pytest.fixture
async def guarded(pg_server: pg.Server) -> AsyncIterator[Guarded]:
    """A database of its own, and the DSN of a login with the rights of a daemon."""
    async with pg_server.copy() as database, pg.Database(pg_server.dsn_of("postgres")).connect() as server:
        parts = urlsplit(database.dsn)
        name = parts.path.removeprefix("/")
        login = f"daemon_of_{name}"
        await server.execute(f"CREATE ROLE {login} LOGIN PASSWORD 'x' IN ROLE farrier_controller")
        at = parts.netloc.rpartition("@")[2]
        try:
            yield Guarded(name, urlunsplit(parts._replace(netloc=f"{login}:x@{at}")), server)
        finally:
            await server.execute(END_SESSIONS, name)
            await server.execute(f"DROP ROLE {login}")


REFUSALS = [
    (
        "ALTER DATABASE {} ALLOW_CONNECTIONS false",
        "not currently accepting",
        "ALTER DATABASE {} ALLOW_CONNECTIONS true",
    ),
    ("REVOKE CONNECT ON DATABASE {} FROM PUBLIC", "permission denied", "GRANT CONNECT ON DATABASE {} TO PUBLIC"),
]


@pytest.mark.parametrize(("refuse", "reason", "allow"), REFUSALS)
async def test_a_daemon_goes_on_when_connections_are_refused_and_then_allowed(
    guarded: Guarded, refuse: str, reason: str, allow: str
) -> None:
    async with replica(guarded.dsn) as daemon:
        await daemon.until("listen.begun")
        await guarded.refuse(refuse)
        # A pulse that is on its way at this moment fails for the end of its session.
        await daemon.until("pulse.failed", error=reason)
        await guarded.server.execute(allow.format(guarded.name))
        await until(lambda: has_begun_again(daemon.names))
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert "task.failed" not in daemon.names


async def has_begun_again(names: list[str]) -> bool:
    return names.count("listen.begun") > 1


@pytest.mark.parametrize(("refuse", "reason"), [case[:2] for case in REFUSALS])
async def test_a_refused_connection_is_an_unreachable_database_for_commands_and_for_the_loop(
    guarded: Guarded, refuse: str, reason: str
) -> None:
    opened = await pool.open_pool(guarded.dsn, size=1, patience=pg.PATIENCE)
    await guarded.refuse(refuse)
    with pytest.raises(errors.DatabaseUnreachable, match=reason):
        await pool.connect(guarded.dsn, patience=timedelta(0))
    await opened.expire_connections()
    with pytest.raises(errors.DatabaseUnreachable, match=reason):
        async with session.borrowed(opened):
            pass
    opened.terminate()
