"""The queries that show nodes: each node once and in order, at any size of the fleet, with the rights of a reader."""

from __future__ import annotations

from datetime import timedelta

import pytest

import farrier
from farrier.errors import RefusedByModel
from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node import clocks, edges
from farrier.model.node.layers import Layer, WorkflowStatus
from farrier.model.node.limits import Limits
from farrier.model.views.fleet import Life
from farrier.model.views.nodes import NodeFilter
from tests.support import owners, pg, reading, tokens

TOKEN = tokens.named("token")

STATUSES = (
    "bootstrap_issued",
    "enrolling",
    "active",
    "offline",
    "quarantined",
    "draining",
    "retired",
    "removing",
    "deleted",
)
MANAGEMENTS = ("unmanaged", "enroll", "verifying", "manageable", "adopting", "adopt_failed", "error")

# A node for every pair of status and management, with each of four ages.
FLEET = """
    INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at, bmc)
    SELECT s || '-' || m || '-' || h, s, m, farrier.now() - h * interval '1 h', farrier.now() - h * interval '1 min',
           CASE WHEN h > 1 THEN '{"asked_at": "2026-01-01T00:00:00Z"}'::jsonb ELSE '{}' END
      FROM unnest($1::text[]) s, unnest($2::text[]) m, unnest('{0, 1, 50, 100}'::integer[]) h
"""


conn, pool, queries = reading.unguarded, reading.pool, reading.queries


@pytest.fixture
async def fleet(conn: Connection) -> None:
    await conn.execute(FLEET, STATUSES, MANAGEMENTS)


@pytest.mark.usefixtures("fleet")
async def test_pages_of_the_inventory_hold_every_node_once_by_name_and_no_deleted_one(
    queries: PostgresQueries,
) -> None:
    names: list[str] = []
    while True:
        page = await queries.inventory(NodeFilter(), after=names[-1] if names else "", limit=7)
        names += [node.name for node in page.rows]
        if len(page.rows) < 7:
            break
    assert len(names) == (len(STATUSES) - 1) * len(MANAGEMENTS) * 4
    assert names == sorted(set(names))
    assert not [name for name in names if name.startswith("deleted")]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits({"status.active": timedelta(hours=1)}, models={"h100": {"management.manageable": timedelta(minutes=1)}}),
    ],
    ids=["the defaults", "resting states, too"],
)
async def test_the_query_for_overdue_nodes_misses_none(queries: PostgresQueries, limits: Limits) -> None:
    """The query reads only nodes whose clocks may run; the test compares it with a check of every node."""
    everything = await queries.inventory(NodeFilter(), limit=10_000)
    expected = {node.name for node in everything.rows if clocks.above(node, everything.now, limits)}
    found = (await queries.overdue(NodeFilter(), limits)).rows
    assert {overdue.node.name for overdue in found} == expected
    assert 0 < len(expected) < len(everything.rows)
    assert [overdue.excess for overdue in found] == sorted((o.excess for o in found), reverse=True)


# Workflows of every kind, status and stage, with each of four ages, on nodes of which some are in states of a newer
# release. A third of the nodes is paused, and two thirds have a site.
AT_WORK = """
    WITH placed AS (
        SELECT row_number() OVER () AS n, w.*
          FROM (SELECT k, s, CASE s WHEN 'running' THEN stage END AS stage, h
                  FROM unnest('{onboarding,decommission}'::text[]) k, unnest($1::text[]) s,
                       unnest(CASE WHEN s = 'running' THEN $2::text[] ELSE '{""}' END) stage,
                       unnest('{0, 2, 5, 30}'::integer[]) h) w),
    made AS (
        INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at,
                                   live_workflow_kind, live_workflow_id, site, model, paused)
        SELECT k || '-' || n, (ARRAY['enrolling', 'active', 'offline', 'draining', 'hibernating'])[1 + n % 5],
               (ARRAY['manageable', 'manageable', 'error', 'dreaming'])[1 + n % 4],
               farrier.now() - (n % 9) * interval '1 h', farrier.now() - (n % 7) * interval '20 min', k, n,
               (ARRAY['north', 'south', NULL])[1 + n % 3], (ARRAY['h100', 'b200'])[1 + n % 2],
               CASE WHEN n % 3 = 0 THEN '{"reason": "x"}'::jsonb END
          FROM placed RETURNING id, live_workflow_id AS n),
    onboardings AS (
        INSERT INTO farrier.node_onboardings
               (id, node_id, mode, status, status_entered_at, stage, stage_entered_at, mode_given_at)
        OVERRIDING SYSTEM VALUE
        SELECT n, m.id, CASE WHEN n % 2 = 0 THEN 'manual' END, s, farrier.now() - h * interval '1 h', stage,
               farrier.now() - h * interval '15 min', CASE WHEN n % 2 = 0 THEN farrier.now() - h * interval '1 h' END
          FROM placed JOIN made m USING (n) WHERE k = 'onboarding')
    INSERT INTO farrier.node_decommissions
           (id, node_id, mode, status, status_entered_at, stage, stage_entered_at, mode_given_at)
    OVERRIDING SYSTEM VALUE
    SELECT n, m.id, 'soft_reset', s, farrier.now() - h * interval '1 h', stage, farrier.now() - h * interval '15 min',
           farrier.now() - h * interval '1 h'
      FROM placed JOIN made m USING (n) WHERE k = 'decommission'
"""


@pytest.mark.matrix(strength=1)
@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(
            {"onboarding.end_to_end": timedelta(hours=3), "status.offline": timedelta(hours=6)},
            models={
                "h100": {"decommission.failed_retryable": timedelta(hours=20), "status.active": timedelta(hours=2)}
            },
            sites={
                "north": {
                    "onboarding.running.wait_for_ready": timedelta(minutes=1),
                    "status.active": timedelta(hours=7),
                },
                "south": {"decommission.end_to_end": timedelta(hours=40)},
            },
        ),
    ],
    ids=["the defaults", "of sites and models"],
)
@pytest.mark.parametrize(
    "wanted", [NodeFilter(), NodeFilter(details={"site": ("north",)}), NodeFilter(statuses=("offline",))]
)
async def test_the_worst_nodes_equal_those_of_a_full_check_and_the_others_are_counted(
    queries: PostgresQueries, conn: Connection, limits: Limits, wanted: NodeFilter
) -> None:
    statuses = [str(s) for s in WorkflowStatus if s not in edges.TERMINAL[Layer.ONBOARDING]]
    stages = ["load_site_config", "wait_for_ready", "drain_node", "cleanup_storage", "daydream"]
    await conn.execute(AT_WORK, [*statuses, "adrift"], stages)
    everything = await queries.inventory(wanted, limit=10_000)
    now = (await queries.overdue(wanted, limits)).now
    late = {node.name: clocks.above(node, now, limits) for node in everything.rows}
    excess = {name: over[0].above or timedelta(0) for name, over in late.items() if over}
    assert 0 < len(excess) < len(everything.rows)
    worst = sorted(excess.values(), reverse=True)
    for most in (None, 10, 1):
        found = await queries.overdue(wanted, limits, limit=most)
        assert len(found.rows) == min(len(excess), most or len(excess))
        assert found.more == len(excess) - len(found.rows)
        passed = found.now - now
        assert [overdue.excess - passed for overdue in found.rows] == worst[:most]
        assert {o.node.name: o.excess - passed for o in found.rows}.items() <= excess.items()


async def test_a_workflow_is_overdue_by_its_stage_and_from_end_to_end(
    queries: PostgresQueries, conn: Connection
) -> None:
    await conn.execute(
        """
        WITH node AS (INSERT INTO farrier.nodes (name, status, management) VALUES ('gpu-1', 'draining', 'unmanaged')
                      RETURNING id),
             job AS (INSERT INTO farrier.node_decommissions
                            (node_id, mode, status, stage, stage_entered_at, mode_given_at)
                     SELECT id, 'soft_reset', 'running', 'disable_node', farrier.now() - interval '6 min',
                            farrier.now() - interval '9 h' FROM node RETURNING id)
        SELECT set_config('farrier_test.job', id::text, false) FROM job
        """
    )
    await conn.execute(
        """
        UPDATE farrier.nodes SET live_workflow_kind = 'decommission',
               live_workflow_id = current_setting('farrier_test.job')::bigint
        """
    )
    (overdue,) = (await queries.overdue(NodeFilter(), Limits())).rows
    assert [(clock.layer, clock.state) for clock in overdue.clocks] == [
        ("decommission", clocks.END_TO_END),
        ("decommission", "running/disable_node"),
    ]


async def test_an_unknown_state_is_shown_and_does_not_hide_other_nodes(
    queries: PostgresQueries, conn: Connection
) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, status_entered_at)
        SELECT n, s, 'unmanaged', farrier.now() - interval '1 d'
          FROM (VALUES ('a', 'offline'), ('b', 'hibernating')) v (n, s)
        """
    )
    page = await queries.inventory(NodeFilter())
    assert [node.status for node in page.rows] == ["offline", "hibernating"]
    assert [overdue.node.name for overdue in (await queries.overdue(NodeFilter(), Limits())).rows] == ["a"]
    assert (await queries.node("b")).rows[0].status == "hibernating"


async def test_a_name_selects_its_live_node_or_else_the_last_deleted_one(
    queries: PostgresQueries, conn: Connection
) -> None:
    add = "INSERT INTO farrier.nodes (name, status, management) VALUES ('gpu-1', $1, 'unmanaged') RETURNING id"
    first = await conn.fetchval(add, "deleted")
    assert (await queries.node("gpu-1")).rows[0].id == first
    second = await conn.fetchval(add, "deleted")
    assert (await queries.node("gpu-1")).rows[0].id == second
    third = await conn.fetchval(add, "active")
    await conn.fetchval("UPDATE farrier.nodes SET id = DEFAULT WHERE id = $1", second)  # newer, but deleted
    assert (await queries.node("gpu-1")).rows[0].id == third
    assert (await queries.node(str(first))).rows[0].id == first


@pytest.mark.parametrize("name", ["gpu-9", "99", "9" * 30, "", "\x00"])
async def test_a_node_that_never_existed_is_refused(queries: PostgresQueries, name: str) -> None:
    with pytest.raises(RefusedByModel):
        await queries.node(name)


async def test_the_detail_has_the_newest_requests_first_and_the_newest_workflow(
    queries: PostgresQueries, conn: Connection
) -> None:
    await conn.execute("SET session_replication_role = origin")
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    for number in range(12):
        await conn.execute(
            "INSERT INTO farrier.intents (node, action, params) VALUES ('gpu-1', 'quarantine', $1)",
            f'{{"reason": "{number}"}}',
        )
    page = await queries.node("gpu-1")
    (detail,) = page.rows
    assert [request.params["reason"] for request in detail.requests] == [str(number) for number in range(11, 1, -1)]
    assert detail.last_workflow is not None
    assert detail.last_workflow == detail.workflow


async def test_the_detail_has_the_enrolment_of_the_agent_and_whether_the_workflow_is_being_cancelled(
    queries: PostgresQueries, conn: Connection
) -> None:
    await conn.execute("SET session_replication_role = origin")
    id_ = await conn.fetchval("SELECT farrier.register_node('gpu-1')")
    (new,) = (await queries.node("gpu-1")).rows
    assert new.workflow is not None and (new.enrolled_at, new.workflow.being_cancelled) == (None, False)
    await conn.execute("SET session_replication_role = replica")
    at = await conn.fetchval(
        "INSERT INTO farrier.node_agents (node_id, key_hash) VALUES ($1, '') RETURNING enrolled_at", id_
    )
    await conn.execute("UPDATE farrier.node_onboardings SET status = 'compensating', after_undo = 'cancel'")
    (shown,) = (await queries.node("gpu-1")).rows
    assert shown.workflow is not None and (shown.enrolled_at, shown.workflow.being_cancelled) == (at, True)


async def test_the_detail_has_the_controller_of_the_node_its_last_sweep_and_the_step_under_way(
    queries: PostgresQueries, pool: Pool, conn: Connection
) -> None:
    await conn.execute("SET session_replication_role = origin")
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    (unowned,) = (await queries.node("gpu-1")).rows
    assert (unowned.controller, unowned.swept_at, unowned.step, unowned.step_begun_at) == (None, None, None, None)
    await owners.joined(pool, "rack-1", {"node": 3.0})
    await conn.execute(
        "INSERT INTO farrier.marks SELECT gen_random_uuid(), 'node', 1, jsonb_build_object($1::bigint,"
        " jsonb_build_object('step', 'reset', 'begun_at', farrier.now()))",
        unowned.id,
    )
    page = await queries.node("gpu-1")
    (owned,) = page.rows
    assert (owned.controller, owned.step) == ("rack-1", "reset")
    assert owned.swept_at is not None and owned.step_begun_at is not None
    assert timedelta(seconds=3) <= page.now - owned.swept_at < timedelta(seconds=60)


async def test_live_and_expired_controllers_are_listed_with_their_shards_and_the_unowned_shards(
    queries: PostgresQueries, pool: Pool, conn: Connection
) -> None:
    await conn.execute("SET session_replication_role = origin")
    await owners.joined(pool, "rack-1", {"node": 1.5, "maas_region": 0.0}, shards=range(60))
    dead = await owners.joined(pool, "rack-2", {"node": 0.0}, shards=(60, 61))
    await owners.joined(pool, "rack-3", {"node": 0.0}, shards=())
    await owners.declared_dead(pool, dead)
    await conn.execute("DELETE FROM farrier.shards WHERE kind NOT IN ('node', 'maas_region')")
    await conn.execute("UPDATE farrier.shards SET owner = gen_random_uuid() WHERE kind = 'node' AND shard = 63")
    found = await queries.controllers()
    listed = [
        (each.name, each.life(found.now), [(share.kind, share.shards, share.lag) for share in each.shares])
        for each in found.controllers
    ]
    assert listed == [
        ("rack-2", Life.EXPIRED, [("node", 2, 0)]),
        ("rack-1", Life.ALIVE, [("maas_region", 60, 0), ("node", 60, 1.5)]),
        ("rack-3", Life.ALIVE, [("node", 0, 0)]),
    ]
    assert [(share.kind, share.shards) for share in found.unowned] == [("maas_region", 4), ("node", 2)]
    assert all(each.release == farrier.__version__ for each in found.controllers)


async def test_a_controller_that_is_not_renewed_is_out_of_touch_before_it_expires(
    queries: PostgresQueries, pool: Pool, db: pg.Database
) -> None:
    await owners.joined(pool, "rack-1", {"node": 0.0})
    await db.advance(timedelta(seconds=7))
    found = await queries.controllers()
    assert [each.life(found.now) for each in found.controllers] == [Life.OUT_OF_TOUCH]


async def test_figures_count_states_unowned_shards_and_unanswered_intents(
    queries: PostgresQueries, pool: Pool, db: pg.Database
) -> None:
    async with db.connect() as client:
        for name in ("a", "b", "c"):
            await client.execute(
                f"SELECT farrier.register_node($1, bootstrap_token => CASE $1 WHEN 'c' THEN '{TOKEN}' END)", name
            )
        await client.execute("INSERT INTO farrier.intents (node, action) VALUES ('a', 'cancel')")
    await owners.joined(pool, "rack-1", {"node": 0.0}, shards=range(60))
    await db.advance(timedelta(seconds=30))
    figures = await queries.figures()
    assert figures.statuses == {"enrolling": 2, "bootstrap_issued": 1}
    assert (figures.unowned, figures.intents_pending) == (4, 1)
    assert 30 <= figures.lag_seconds < 90


async def test_the_readers_role_may_run_every_query(db: pg.Database) -> None:
    async with db.connect() as client:
        await client.execute("SELECT farrier.register_node('gpu-1')")
    async with pg.Database(f"{db.dsn}&options=-c%20role%3Dfarrier_reader").pool(size=1) as connections:
        queries = PostgresQueries(connections)
        assert (await queries.inventory(NodeFilter())).rows
        assert not (await queries.overdue(NodeFilter(), Limits())).rows
        assert (await queries.node("gpu-1")).rows
        assert not (await queries.tasks(None)).rows
        assert (await queries.figures()).statuses == {"enrolling": 1}
        assert [share.kind for share in (await queries.controllers()).unowned if share.kind == "node"]
