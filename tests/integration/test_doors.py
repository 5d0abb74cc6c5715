"""The doors: which login may list a door, and what such a login cannot do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio
import pytest
from structlog.testing import capture_logs

import farrier
from farrier.io.calls.doors import PostgresDoor
from farrier.io.connections.pool import Connection
from farrier.model.loop.doors import DoorKind
from tests.support import again, pg

PULSE = "SELECT farrier.pulse_agents_door($1, $2, '1.0', false)"
LISTED = "SELECT kind, name, release, reached_at IS NOT NULL AS reached FROM farrier.doors ORDER BY kind, name"


async def doors(db: pg.Database) -> list[tuple[Any, ...]]:
    async with db.connect() as conn:
        return [tuple(row) for row in await conn.fetch(LISTED)]


@asynccontextmanager
async def running(door: PostgresDoor, db: pg.Database, until: Callable[[], Any]) -> AsyncIterator[None]:
    """A door at work, from the first pulse after which `until` is true."""
    async with anyio.create_task_group() as group:
        group.start_soon(door.run)
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            while not await until():
                await again.later()
        yield
        group.cancel_scope.cancel()


@pytest.mark.parametrize("kind", DoorKind)
async def test_a_door_is_listed_while_its_process_runs(db: pg.Database, kind: DoorKind) -> None:
    async with db.pool(1) as connections:
        door = PostgresDoor(connections, kind, "door-1")
        async with running(door, db, lambda: doors(db)):
            assert await doors(db) == [(kind, "door-1", farrier.__version__, False)]
    assert await doors(db) == []


async def test_a_door_says_when_it_last_answered_an_agent(db: pg.Database) -> None:
    reached = "SELECT farrier.now() - reached_at FROM farrier.doors"
    async with db.connect() as conn, db.pool(1) as connections:
        await db.freeze()
        door = PostgresDoor(connections, DoorKind.AGENTS, "door-1")
        await door.beat()
        assert await conn.fetchval(reached) is None
        door.reached()
        await door.beat()
        assert await conn.fetchval(reached) == timedelta(0)
        await db.advance(timedelta(minutes=1))
        await door.beat()
        assert await conn.fetchval(reached) == timedelta(minutes=1)


async def test_a_login_lists_doors_of_its_own_kind_only(db: pg.Database) -> None:
    async with db.connect() as conn:
        for role, mine, other in (
            ("farrier_agent", "pulse_agents_door($1, 'host', '1.0', true)", "pulse_pages_door($1, 'host', '1.0')"),
            ("farrier_intents", "pulse_pages_door($1, 'host', '1.0')", "pulse_agents_door($1, 'host', '1.0', true)"),
        ):
            await conn.execute(f"RESET ROLE; SET ROLE {role}")
            door = uuid4()
            assert await conn.fetchval(f"SELECT farrier.{mine}", door)
            for statement in (f"SELECT farrier.{other}", "SELECT farrier.keep_door('agents', $1, 'host', '1.0', true)"):
                with pytest.raises(pg.PostgresError, match="permission denied"):
                    await conn.execute(statement, door)
        await conn.execute("RESET ROLE")
    assert await doors(db) == [("agents", "host", "1.0", True), ("pages", "host", "1.0", False)]


async def test_a_login_cannot_renew_a_door_of_another_kind(db: pg.Database) -> None:
    door = uuid4()
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT farrier.pulse_pages_door($1, 'host', '1.0')", door)
        assert not await conn.fetchval(PULSE, door, "forged")
    assert await doors(db) == [("pages", "host", "1.0", False)]


async def test_a_login_cannot_fill_the_table(db: pg.Database) -> None:
    async with db.connect() as conn, db.pool(1) as connections:
        for number in range(100):
            assert await conn.fetchval(PULSE, uuid4(), f"forged-{number}")
        late = PostgresDoor(connections, DoorKind.AGENTS, "late")
        with capture_logs() as lines:
            await late.beat()
            await late.beat()
        assert [line["event"] for line in lines] == ["door.not_listed"], "said once"
        assert len(await doors(db)) == 100
        assert await conn.fetchval("SELECT farrier.pulse_pages_door($1, 'host', '1.0')", uuid4()), "of another kind"


@pytest.mark.parametrize(("name", "release"), [("", "1"), ("a b", "1"), ("x" * 254, "1"), ("a", ""), ("\x1b[2J", "1")])
async def test_a_malformed_name_or_release_is_refused(conn: Connection, name: str, release: str) -> None:
    with pytest.raises(pg.PostgresError, match="a door needs") as refused:
        await conn.execute("SELECT farrier.pulse_agents_door($1, $2, $3, false)", uuid4(), name, release)
    assert refused.value.sqlstate == "FR400"
