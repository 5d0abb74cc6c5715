"""Retention removes old history and keeps the newest entry of each layer; all replicas share one pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from structlog.testing import capture_logs

from farrier.errors import RefusedByModel
from farrier.io.calls.retention import STEP, PostgresRetention
from farrier.io.connections import pool
from farrier.io.connections.pool import Connection
from farrier.model.views.history import HistoryEntry, HistoryKey, Retained
from tests.support import pasts, pg, proxy, toy

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LONG = timedelta(days=1)
HOUR = timedelta(hours=1)


@pytest.fixture
async def retention(db: pg.Database) -> AsyncIterator[PostgresRetention]:
    async with db.pool(size=4) as connections:
        yield PostgresRetention(connections)


MANY = """
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
    SELECT 'widget', v % 10, v, 'status', 'x', farrier.now() - interval '10 d' + v * interval '1 ms', '', '', '',
           gen_random_uuid(), 1
      FROM generate_series(1, $1::integer) v
"""
# Removed in three steps. The ten existing resources keep one entry each.
CHANGES = 2 * STEP + 500
WIDGETS = "INSERT INTO farrier_toy.widgets (id) SELECT generate_series(0, 9)"
END = """
    UPDATE farrier.nodes SET status = 'deleted' WHERE id = (SELECT max(id) FROM farrier.nodes)
"""
THERE = """
    SELECT 'node' AS kind, id FROM farrier.nodes WHERE status <> 'deleted'
    UNION ALL SELECT 'maas_region', id FROM farrier.maas_regions
"""


@pytest.fixture
async def much(conn: Connection) -> None:
    await conn.execute(MANY, CHANGES)
    await conn.execute(toy.CREATE)
    await conn.execute(WIDGETS)


async def pruned(retention: PostgresRetention, older_than: timedelta, *, really: bool) -> int:
    """Make a whole pass; returns how many entries it removed."""
    deleted, key = 0, None
    while True:
        step = await retention.prune(older_than, after=key, really=really)
        deleted += step.deleted
        if step.following is None:
            return deleted
        key = step.following


def needed(everything: list[HistoryEntry], cutoff: datetime, *, there: set[tuple[str, int]]) -> set[HistoryKey]:
    """The keys of the entries that retention has to keep."""
    newest: dict[tuple[str, int, str], int] = {}
    for past in everything:
        place = past.kind, past.id, past.layer
        newest[place] = max(newest.get(place, 0), past.version)
    return {
        past.key
        for past in everything
        if past.at >= cutoff
        or ((past.kind, past.id) in there and newest[past.kind, past.id, past.layer] == past.version)
    }


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("minutes", [0, 10, 30], ids="{} min".format)
async def test_exactly_young_entries_and_the_newest_of_each_layer_stay(
    retention: PostgresRetention, conn: Connection, db: pg.Database, seed: int, minutes: int
) -> None:
    await pasts.make(conn, seed=seed, versions=40, began=BEGAN)
    async with db.connect() as forced:
        await forced.execute("SET session_replication_role = replica")
        await forced.execute(END)
    there = {(record["kind"], record["id"]) for record in await conn.fetch(THERE)}
    everything = await pasts.table(conn)
    cutoff = BEGAN + timedelta(minutes=minutes, seconds=30)
    age = await db.now() - cutoff
    expected = needed(everything, cutoff, there=there)
    assert await pruned(retention, age, really=False) == len(everything) - len(expected)
    assert len(await pasts.table(conn)) == len(everything)
    assert await pruned(retention, age, really=True) == len(everything) - len(expected)
    assert {past.key for past in await pasts.table(conn)} == expected
    assert await pruned(retention, age, really=True) == 0


@pytest.mark.usefixtures("much")
async def test_history_of_a_removed_kind_is_removed_and_stops_no_pass(
    retention: PostgresRetention, conn: Connection
) -> None:
    await conn.execute("DELETE FROM farrier.kinds WHERE kind = 'widget'")
    assert await pruned(retention, LONG, really=True) == CHANGES
    assert await conn.fetchval("SELECT count(*) FROM farrier.history") == 0


@pytest.mark.usefixtures("much")
async def test_a_pass_is_made_in_steps_with_pauses_and_the_next_one_in_an_hour(
    retention: PostgresRetention, conn: Connection, db: pg.Database
) -> None:
    first = await retention.step(LONG)
    assert (first.ended, first.looked, first.deleted) == (False, STEP, STEP)
    assert timedelta(0) < first.due_in <= timedelta(seconds=1)
    for _ in range(2):
        await db.advance(first.due_in)
        last = await retention.step(LONG)
    assert (last.ended, last.looked, last.deleted) == (True, CHANGES, CHANGES - 10)
    assert await conn.fetchval("SELECT count(*) FROM farrier.history") == 10
    assert last.due_in == HOUR
    await db.advance(HOUR)
    again = await retention.step(LONG)
    assert (again.ended, again.looked, again.deleted) == (True, 10, 0)


@pytest.mark.usefixtures("much")
async def test_a_step_that_is_not_due_does_nothing(retention: PostgresRetention, conn: Connection) -> None:
    await retention.step(LONG)
    await conn.execute("UPDATE farrier.history_retention SET due_at = farrier.now() + interval '5 min'")
    early = await retention.step(LONG)
    assert timedelta(minutes=4) < early.due_in <= timedelta(minutes=5)
    assert await conn.fetchval("SELECT count(*) FROM farrier.history") == CHANGES - STEP


@pytest.mark.usefixtures("much")
async def test_a_step_that_another_replica_takes_is_left_to_it(retention: PostgresRetention, conn: Connection) -> None:
    async with conn.transaction():
        await conn.execute("SELECT FROM farrier.history_retention FOR UPDATE")
        with anyio.fail_after(10):
            left = await retention.step(LONG)
    assert (left.ended, left.deleted) == (False, 0)
    assert await conn.fetchval("SELECT count(*) FROM farrier.history") == CHANGES


@pytest.mark.usefixtures("much")
async def test_replicas_at_once_take_each_step_once(
    retention: PostgresRetention, conn: Connection, db: pg.Database
) -> None:
    taken: list[Retained] = []

    async def replica() -> None:
        taken.append(await retention.step(LONG))

    while not any(step.ended for step in taken):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(replica)
        await db.advance(timedelta(seconds=1))
        assert len(taken) <= 12, "a pass of three steps is over after three rounds"
    assert sum(step.ended for step in taken) == 1
    assert max(step.deleted for step in taken) == CHANGES - 10
    assert await conn.fetchval("SELECT count(*) FROM farrier.history") == 10


async def test_entries_written_during_a_pass_stay(
    retention: PostgresRetention, conn: Connection, db: pg.Database
) -> None:
    await conn.execute(MANY, STEP)
    await conn.execute(toy.CREATE)
    await conn.execute(WIDGETS)
    await retention.step(LONG)
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    await db.advance(timedelta(seconds=1))
    assert (await retention.step(LONG)).ended
    assert await conn.fetchval("SELECT count(*) FROM farrier.history WHERE kind = 'node'") == 3


@pytest.mark.usefixtures("much")
async def test_the_controllers_role_may_remove_history_and_the_readers_role_may_not(db: pg.Database) -> None:
    for role, may in (("farrier_reader", False), ("farrier_controller", True)):
        async with pg.Database(f"{db.dsn}&options=-c%20role%3D{role}").pool(size=1) as connections:
            retention = PostgresRetention(connections)
            if may:
                assert (await retention.step(LONG)).deleted == STEP
                assert (await retention.prune(LONG, really=True)).deleted > 0
            else:
                with pytest.raises(RefusedByModel):
                    await retention.prune(LONG, really=True)
                with pytest.raises(RefusedByModel):
                    await retention.step(LONG)


@pytest.mark.usefixtures("much")
async def test_a_replica_logs_the_end_of_a_pass_and_returns_the_time_until_its_next_turn(
    retention: PostgresRetention, db: pg.Database
) -> None:
    with capture_logs() as logs:
        assert await retention.turn(LONG) == timedelta(seconds=1)
        await db.advance(timedelta(seconds=1))
        assert await retention.turn(LONG) == timedelta(seconds=1)
        assert not logs
        await db.advance(timedelta(seconds=1))
        assert await retention.turn(LONG) == timedelta(minutes=1)
    (told,) = logs
    assert (told["event"], told["deleted"], told["kept"]) == ("history.pruned", CHANGES - 10, 10)


async def test_a_replica_without_a_database_retries_and_logs_that(db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        connections.terminate()
        retention = PostgresRetention(connections)
        with capture_logs() as logs:
            assert await retention.turn(LONG) == timedelta(minutes=1)
    assert [(told["event"], told["label"]) for told in logs] == [("history.not_pruned", "database_unreachable")]


async def test_a_replica_on_a_silent_connection_retries_and_logs_that(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as between:
        connections = await pool.open_pool(between.dsn, size=1, patience=pg.PATIENCE)
        retention = PostgresRetention(connections, patience=timedelta(milliseconds=100))
        between.freeze()
        with capture_logs() as logged, anyio.fail_after(pg.PATIENCE.total_seconds()):
            assert await retention.turn(LONG) == timedelta(minutes=1)
        connections.terminate()
    assert [(line["event"], line["label"]) for line in logged] == [("history.not_pruned", "database_unreachable")]
