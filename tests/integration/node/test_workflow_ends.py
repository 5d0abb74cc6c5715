"""A workflow has ended exactly if `ended_at` is set: a trigger sets it with the status, for every writer.

Queries and indexes find live workflows by `ended_at`, so this must hold also when the guards are disabled.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.layers import AT_WORK, FAILED, SUCCEEDED, TERMINAL, WorkflowKind, WorkflowStatus
from tests.support import pg

ENDS = sorted(TERMINAL)
HOUR = timedelta(hours=1)
BEHIND_THE_GUARDS = "SET session_replication_role = replica"


async def live(conn: Connection, kind: WorkflowKind) -> None:
    """Insert node 1 with the live workflow 1 of this kind; from now on the guards are disabled."""
    await conn.execute(f"SELECT farrier.register_node('gpu-1'); {BEHIND_THE_GUARDS}")
    await conn.execute("DELETE FROM farrier.node_onboardings; ALTER SEQUENCE farrier.node_onboardings_id_seq RESTART")
    await conn.execute(f"INSERT INTO farrier.node_{kind}s (node_id, mode) VALUES (1, 'reimage')")


async def has_ended(conn: Connection, kind: WorkflowKind) -> bool:
    ended: bool = await conn.fetchval(f"SELECT ended_at IS NOT NULL FROM farrier.node_{kind}s WHERE id = 1")
    return ended


@pytest.mark.parametrize("kind", WorkflowKind)
async def test_every_move_sets_or_clears_the_end(every_db: pg.Database, kind: WorkflowKind) -> None:
    async with every_db.connect() as conn:
        await live(conn, kind)
        for source, target in permutations(WorkflowStatus, 2):
            for status in (source, target):
                await conn.execute(f"UPDATE farrier.node_{kind}s SET status = $1", status)
                assert await has_ended(conn, kind) == (status in TERMINAL), (source, target)


@pytest.mark.parametrize("kind", WorkflowKind)
async def test_a_row_that_is_inserted_has_ended_exactly_if_its_status_has(db: pg.Database, kind: WorkflowKind) -> None:
    async with db.connect() as conn:
        await live(conn, kind)
        for status in WorkflowStatus:
            await conn.execute(f"DELETE FROM farrier.node_{kind}s")
            await conn.execute(
                f"INSERT INTO farrier.node_{kind}s (id, node_id, mode, status) OVERRIDING SYSTEM VALUE"
                " VALUES (1, 1, 'reimage', $1)",
                status,
            )
            assert await has_ended(conn, kind) == (status in TERMINAL), status


@pytest.mark.parametrize("status", ENDS)
async def test_ended_at_is_the_entry_of_the_status_and_stays_through_later_writes(db: pg.Database, status: str) -> None:
    async with db.connect() as conn:
        await live(conn, WorkflowKind.DECOMMISSION)
        before = await db.now()
        await conn.execute("UPDATE farrier.node_decommissions SET status = $1", status)
        ended = await conn.fetchval("SELECT ended_at FROM farrier.node_decommissions")
        assert before < ended < await db.now()
        await db.advance(HOUR)
        for write in ("failure_detail = 'late'", "status = status", "ended_at = NULL"):
            await conn.execute(f"UPDATE farrier.node_decommissions SET {write}")
            assert await conn.fetchval("SELECT ended_at FROM farrier.node_decommissions") == ended, write


async def test_an_ended_at_that_is_inserted_with_a_row_is_kept(db: pg.Database) -> None:
    """A restore inserts rows with `ended_at`."""
    async with db.connect() as conn:
        await live(conn, WorkflowKind.ONBOARDING)
        await conn.execute(
            "INSERT INTO farrier.node_onboardings (node_id, status, ended_at)"
            " VALUES (1, 'completed', '2026-01-01T00:00:00Z')"
        )
        assert await conn.fetchval(
            "SELECT ended_at = '2026-01-01T00:00:00Z' FROM farrier.node_onboardings WHERE status = 'completed'"
        )


async def test_a_live_workflow_is_given_no_end(db: pg.Database) -> None:
    async with db.connect() as conn:
        await live(conn, WorkflowKind.ONBOARDING)
        await conn.execute("UPDATE farrier.node_onboardings SET ended_at = farrier.now()")
        assert not await has_ended(conn, WorkflowKind.ONBOARDING)


async def test_an_unknown_status_leaves_ended_at_as_the_writer_set_it(db: pg.Database) -> None:
    async with db.connect() as conn:
        await live(conn, WorkflowKind.ONBOARDING)
        await conn.execute("UPDATE farrier.node_onboardings SET status = 'adrift'")
        assert not await has_ended(conn, WorkflowKind.ONBOARDING)
        await conn.execute("UPDATE farrier.node_onboardings SET ended_at = farrier.now()")
        assert await has_ended(conn, WorkflowKind.ONBOARDING)


async def test_the_database_classifies_each_status_as_the_model_does(db: pg.Database) -> None:
    async with db.connect() as conn:
        rows = await conn.fetch("SELECT * FROM farrier.workflow_statuses")
    said = {name: {row["status"] for row in rows if row[name]} for name in ("ended", "succeeded", "failed", "at_work")}
    assert said == {"ended": TERMINAL, "succeeded": SUCCEEDED, "failed": FAILED, "at_work": AT_WORK}
    assert {row["status"] for row in rows} == set(WorkflowStatus)
