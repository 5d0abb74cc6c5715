"""The feed of the example hooks: all nodes at each start, then each that changes, and no failure loses a change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping

import anyio
import pytest
from typing_extensions import override

from examples.hooks import feed
from farrier.client import AsyncFarrier
from farrier.io.connections.pool import Connection
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.architecture.sources import ROOT
from tests.support import pg
from tests.support.web import open_site, register

# An upper bound of the time after which a change is in the feed.
SETTLED = pg.PATIENCE


class Scheduler:
    """A scheduler that records what the hook reports, and raises while it is down."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self.calls = 0
        self.is_down = False
        self._changed = anyio.Event()

    async def reconcile(self, statuses: Mapping[str, str]) -> None:
        self.calls += 1
        if self.is_down:
            raise ConnectionError("the scheduler is down")
        self.statuses |= statuses
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, expected: Mapping[str, str]) -> None:
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            while self.statuses != expected:
                await self._changed.wait()


@pytest.fixture
async def url(backend: Backend) -> AsyncIterator[str]:
    async with serving(open_site(backend).app, host="127.0.0.1", port=0) as url:
        yield url


async def move(conn: Connection, db: pg.Database, name: str, status: str) -> None:
    """Change the status of a node as a commit does, and let the feed report it."""
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")
        await conn.execute(
            """
            WITH old AS (SELECT id, version, status FROM farrier.nodes WHERE name = $1),
                 new AS (UPDATE farrier.nodes n SET status = $2, version = n.version + 1 FROM old WHERE n.id = old.id)
            INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, cause, reason, source,
                                         controller, epoch)
            SELECT 'node', id, version + 1, 'status', status, $2, farrier.now(), 'test', '', '', gen_random_uuid(), 1
              FROM old
            """,
            name,
            status,
        )
    await db.advance(SETTLED)


async def followed(url: str, scheduler: Scheduler) -> None:
    """Run a hook until it fails, as a supervisor would see it."""
    async with AsyncFarrier(url) as farrier:
        await feed.follow(farrier, scheduler)


async def test_a_hook_begins_with_all_nodes_and_follows_them_also_after_it_was_killed(
    url: str, conn: Connection, db: pg.Database
) -> None:
    scheduler = Scheduler()
    await register(conn, "gpu-1", "gpu-2")
    await db.advance(SETTLED)
    async with anyio.create_task_group() as group:
        group.start_soon(followed, url, scheduler)
        await scheduler.until({"gpu-1": "enrolling", "gpu-2": "enrolling"})
        assert scheduler.calls == 1
        await move(conn, db, "gpu-1", "active")
        await scheduler.until({"gpu-1": "active", "gpu-2": "enrolling"})
        group.cancel_scope.cancel()
    await move(conn, db, "gpu-2", "active")
    async with anyio.create_task_group() as group:
        group.start_soon(followed, url, scheduler)
        await scheduler.until({"gpu-1": "active", "gpu-2": "active"})
        group.cancel_scope.cancel()


async def test_a_node_that_changes_while_a_hook_starts_is_reported_with_its_newest_status(
    url: str, conn: Connection, db: pg.Database
) -> None:
    """The feed's position is older than the list, so a change that the list lacks comes with the feed."""

    class Slow(Scheduler):
        @override
        async def reconcile(self, statuses: Mapping[str, str]) -> None:
            if not self.calls:
                await move(conn, db, "gpu-1", "active")
                await move(conn, db, "gpu-1", "quarantined")
            await super().reconcile(statuses)

    await register(conn, "gpu-1")
    await db.advance(SETTLED)
    scheduler = Slow()
    async with anyio.create_task_group() as group:
        group.start_soon(followed, url, scheduler)
        await scheduler.until({"gpu-1": "quarantined"})
        group.cancel_scope.cancel()


async def test_a_deleted_node_is_reported_as_deleted(url: str, conn: Connection, db: pg.Database) -> None:
    scheduler = Scheduler()
    await register(conn, "gpu-1")
    await db.advance(SETTLED)
    async with anyio.create_task_group() as group:
        group.start_soon(followed, url, scheduler)
        await scheduler.until({"gpu-1": "enrolling"})
        await move(conn, db, "gpu-1", "deleted")
        await scheduler.until({"gpu-1": "deleted"})
        group.cancel_scope.cancel()


async def test_a_change_that_the_scheduler_did_not_take_is_reported_again(
    url: str, conn: Connection, db: pg.Database
) -> None:
    scheduler = Scheduler()
    await register(conn, "gpu-1")
    await move(conn, db, "gpu-1", "quarantined")
    scheduler.is_down = True
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await followed(url, scheduler)
    scheduler.is_down = False
    async with anyio.create_task_group() as group:
        group.start_soon(followed, url, scheduler)
        await scheduler.until({"gpu-1": "quarantined"})
        group.cancel_scope.cancel()


@pytest.mark.parametrize("hook", ["kubernetes", "slurm"])
def test_a_wrong_command_and_an_unreachable_api_are_reported_in_one_line(hook: str) -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", f"examples.hooks.{hook}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 1
        return done.stderr

    assert "FARRIER_URL" in said()
    lines = said("http://127.0.0.1:1", "http://127.0.0.1:1").splitlines()
    assert len(lines) == 1 and "http://127.0.0.1:1" in lines[0]
