"""The servers beside a controller with an embedded database: their processes, logins and ends."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from farrier.io.connections.embedded import EmbeddedServer
from farrier.model.loop.doors import DoorKind
from tests.support import pg
from tests.support.process import ANY_PORTS, PATIENCE, Event, Farrier, farrier, until

LOGINS = """
    SELECT DISTINCT usename::text FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory outside of pytest's directory, which the account of the PostgreSQL server of root may not enter."""
    with tempfile.TemporaryDirectory(prefix="farrier-servers-") as name:
        yield Path(name)
        EmbeddedServer(Path(name)).stop()


@pytest.fixture
async def daemon(directory: Path) -> AsyncIterator[Farrier]:
    async with farrier("run", "--embedded", str(directory), "--metrics-port", "0", environment=ANY_PORTS) as running:
        await running.until("daemon.ready")
        await until(lambda: all_ready(running))
        yield running


def begun(daemon: Farrier, kind: DoorKind) -> list[Event]:
    """The starts of this server."""
    return [event for event in daemon.events if event["event"] == "server.starting" and event["server"] == kind]


async def all_ready(daemon: Farrier) -> bool:
    return {event["server"] for event in daemon.events if event["event"] == "server.ready"} == set(DoorKind)


def urls(daemon: Farrier) -> dict[str, str]:
    """The URL of each server, as the controller logged it."""
    listening = [event for event in daemon.events if event["event"] == "http.listening"]
    return {event["server"]: event["url"] for event in listening if "server" in event}


async def status(url: str) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        return (await client.get(url)).status_code


def lives(process: int) -> bool:
    """Whether the process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_controller_with_an_embedded_database_starts_both_servers_with_their_own_logins(
    daemon: Farrier, directory: Path
) -> None:
    served = urls(daemon)
    assert await status(f"{served['pages']}/") == 200
    assert await status(f"{served['agents']}/readyz") == 200
    async with pg.Database(EmbeddedServer(directory).dsn).connect() as conn:
        used = {row[0] for row in await conn.fetch(LOGINS)}
    assert used == {"postgres", "farrier_serve", "farrier_serve_agents"}
    daemon.send(signal.SIGTERM)
    assert await daemon.ended() == 0
    assert not [event for kind in DoorKind for event in begun(daemon, kind) if lives(event["pid"])]


async def test_both_servers_are_listed_as_doors_until_they_end(daemon: Farrier, directory: Path) -> None:
    listed = "SELECT id, kind FROM farrier.doors WHERE renewed_at > farrier.now() - interval '10 s' ORDER BY kind"
    async with pg.Database(EmbeddedServer(directory).dsn).connect() as conn:

        async def have_pulsed() -> bool:
            return [door["kind"] for door in await conn.fetch(listed)] == sorted(DoorKind)

        await until(have_pulsed)
        first_ones = await conn.fetch(listed)
        for kind in DoorKind:
            (first,) = begun(daemon, kind)
            os.kill(first["pid"], signal.SIGTERM)

        async def have_left() -> bool:
            return not {*await conn.fetch(listed)} & {*first_ones}

        await until(have_left)


async def test_a_server_that_is_killed_is_started_again_at_the_same_address(daemon: Farrier) -> None:
    before = urls(daemon)
    (first,) = begun(daemon, DoorKind.PAGES)
    os.kill(first["pid"], signal.SIGKILL)
    ended = await daemon.until("server.ended")
    assert (ended["server"], ended["code"]) == ("pages", -signal.SIGKILL)
    assert await status(f"{before['pages']}/readyz") in (200, 503)
    assert [event["pid"] == first["pid"] for event in begun(daemon, DoorKind.PAGES)] == [True, False]
    assert len(begun(daemon, DoorKind.AGENTS)) == 1


async def test_the_servers_end_with_a_controller_that_is_killed(daemon: Farrier) -> None:
    processes = [event["pid"] for kind in DoorKind for event in begun(daemon, kind)]
    assert all(map(lives, processes))
    daemon.send(signal.SIGKILL)
    await daemon.is_over()

    async def all_ended() -> bool:
        return not any(map(lives, processes))

    await until(all_ended)


async def test_each_server_leaves_the_processors_to_the_controller(daemon: Farrier) -> None:
    nice = {kind: os.getpriority(os.PRIO_PROCESS, begun(daemon, kind)[0]["pid"]) for kind in DoorKind}
    of_the_controller = os.getpriority(os.PRIO_PROCESS, 0)  # inherited from this process
    assert nice == dict.fromkeys(DoorKind, min(19, of_the_controller + 10))


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="Linux shares no processors out among sessions")
def test_so_does_the_session_of_each_server(daemon: Farrier) -> None:
    of_sessions = {Path(f"/proc/{begun(daemon, kind)[0]['pid']}/autogroup").read_text() for kind in DoorKind}
    assert {of_session.partition("nice ")[2] for of_session in of_sessions} == {"10\n"}
