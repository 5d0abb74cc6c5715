"""The census counts the fleet by the clocks that users see."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest

from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries.lists import PostgresQueries
from farrier.model.loop.controllers import SHARDS
from farrier.model.machine.bmc import PowerState
from farrier.model.node import clocks, layers
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import LIVE, Layer, Management, NodeStatus, WorkflowStatus
from farrier.model.node.limits import END_TO_END, Limits
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.views.census import Census, Owned, Rules
from farrier.model.views.nodes import NodeFilter, NodeView
from tests.support import owners, pg, reading
from tests.support.monitors import grant, report

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

DEFAULT = Limits()
# Limits for all nodes, for a model and for a site: for states without a default limit, and shorter and longer ones.
MIXED = Limits(
    everywhere={"status.enrolling": HOUR, "management.verifying": HOUR, "onboarding.end_to_end": 2 * HOUR},
    models={"h100": {"status.active": HOUR, "status.offline": 5 * HOUR, "management.manageable": 3 * HOUR}},
    sites={"north": {"status.offline": 20 * MINUTE, "onboarding.running.wait_for_ready": 9 * HOUR}},
)
MODES = {"onboarding": ("deploy", "manual", None), "decommission": ("reimage",)}
STAGES = {"onboarding": tuple(OnboardingStage), "decommission": tuple(DecommissionStage)}

NODE = """
    INSERT INTO farrier.nodes
           (name, site, model, status, management, status_entered_at, management_entered_at, bmc, paused, deleting)
    VALUES ($1, $2, $3, $4, $5, farrier.now() - $6::interval, farrier.now() - $7::interval, $8, $9, $10) RETURNING id
"""
WORKFLOW = """
    INSERT INTO farrier.node_{kind}s
           (node_id, mode, status, status_entered_at, stage, stage_entered_at, mode_given_at, failure_class, after_undo)
    VALUES ($1, $2, $3, farrier.now() - $4::interval, $5, farrier.now() - $6::interval,
            CASE WHEN $2::text IS NOT NULL THEN farrier.now() - $7::interval END, $8, $9) RETURNING id
"""
LIVE_WORKFLOW = "UPDATE farrier.nodes SET live_workflow_kind = $2, live_workflow_id = $3 WHERE id = $1"
AGENT = """
    INSERT INTO farrier.node_agents (node_id, key_hash, last_heartbeat_at, health)
    VALUES ($1, farrier.digest($1::bigint::text), farrier.now() - $2::interval, $3)
"""
BMCS = (
    '{"power": "on", "power_at": "2026-01-01T00:00:00Z"}',
    '{"power": "off", "power_at": "2026-01-01T00:00:00Z"}',
    '{"asked_at": "2026-01-01T00:00:00Z"}',
    '{"power": "on", "sync_failure": "timeout", "power_at": "2026-01-01T00:00:00Z"}',
    '{"sync_failure": "auth"}',
    "{}",
)
REPORTS = (
    '{"ok": true}',
    '{"ok": false, "alerts": []}',
    '{"ok": true, "alerts": [{"id": "x", "blocks_scheduling": false}]}',
    '{"ok": true, "alerts": [{"id": "x"}, {"id": "y", "blocks_scheduling": true}]}',
)


def rules(limits: Limits = DEFAULT, name_at_most: int = 100) -> Rules:
    return Rules(limits=limits, offline_after=3 * MINUTE, observation_ttl=5 * MINUTE, name_at_most=name_at_most)


conn, pool, queries = reading.unguarded, reading.pool, reading.queries


def age(dice: random.Random) -> timedelta:
    """A random age around the existing limits, but never so close to one that the duration of the test matters."""
    return dice.choice((0, 1, 4, 12, 25, 40, 61, 150, 300, 420, 1000, 1500, 5000)) * MINUTE + timedelta(seconds=30)


async def add_node(conn: Connection, dice: random.Random, name: str) -> None:
    status = dice.choice(tuple(NodeStatus))
    node = await conn.fetchval(
        NODE,
        name,
        dice.choice(("north", "south", None)),
        dice.choice(("h100", "a100", None)),
        status,
        dice.choice(tuple(Management)),
        age(dice),
        age(dice),
        dice.choice(BMCS),
        '{"reason": "tests", "at": "2026-01-01T00:00:00Z"}' if dice.random() < 0.4 else None,
        dice.random() < 0.3,
    )
    if dice.random() < 0.3:  # an onboarding that has ended
        await add_workflow(conn, dice, node, "onboarding", tuple(set(WorkflowStatus) - LIVE))
    if dice.random() < 0.7 and status is not NodeStatus.DELETED:
        kind = dice.choice(("onboarding", "decommission"))
        live = await add_workflow(conn, dice, node, kind, tuple(LIVE))
        await conn.execute(LIVE_WORKFLOW, node, kind, live)
    if dice.random() < 0.8:
        await conn.execute(AGENT, node, dice.choice((MINUTE, 10 * MINUTE, None)), dice.choice(REPORTS))


async def add_workflow(
    conn: Connection, dice: random.Random, node: int, kind: str, statuses: tuple[WorkflowStatus, ...]
) -> int:
    status = dice.choice(sorted(statuses))
    failed = status is WorkflowStatus.FAILED_MANUAL_INTERVENTION
    id_: int = await conn.fetchval(
        WORKFLOW.format(kind=kind),
        node,
        dice.choice(MODES[kind]),
        status,
        age(dice),
        dice.choice(STAGES[kind]),
        age(dice),
        age(dice),
        dice.choice(("discovery_conflict", "timeout")) if failed else None,
        dice.choice(("cancel", "restart", None)),
    )
    return id_


def place(clock: StateClock) -> tuple[str, str, str]:
    """The state of a clock by the labels of the metrics."""
    kind = layers.LAYER_KIND[Layer(clock.layer)]
    if clock.state == clocks.END_TO_END:
        return kind, END_TO_END, ""
    state, _, substate = clock.state.partition("/")
    return kind, state, substate


def above(census: Census) -> Mapping[tuple[str, str, str], int]:
    return {(late.kind, late.state, late.substate): late.count for late in census.above}


@pytest.mark.matrix(keep=4)
@pytest.mark.parametrize("limits", [DEFAULT, MIXED], ids=["defaults", "of sites and models"])
@pytest.mark.parametrize("seed", range(6))
async def test_the_census_counts_the_clocks_above_their_limit_that_the_inventory_shows(
    conn: Connection, queries: PostgresQueries, seed: int, limits: Limits
) -> None:
    dice = random.Random(seed)
    for number in range(150):
        await add_node(conn, dice, f"gpu-{number}")
    page = await queries.inventory(NodeFilter(), limit=1000)
    going_on = await goes_on(conn)
    shown = {
        node.name: tuple(clock for clock in clocks.above(node, page.now, limits) if runs(node, clock, going_on))
        for node in page.rows
    }
    census = await queries.census(rules(limits))
    assert above(census) == Counter(place(clock) for late in shown.values() for clock in late)
    late = sorted(((clocks_[0].above, name) for name, clocks_ in shown.items() if clocks_), reverse=True)
    told = {(each.name, (each.kind, each.state, each.substate)) for each in census.worst}
    known = {(place(clock), name) for name, over in shown.items() for clock in over}
    inhabited = {where for where, _ in known}
    assert told <= {(name, where) for where, name in known}
    assert len(told) == len(census.worst) <= 100
    if len({name for _, name in late}) + 5 * len(inhabited) <= 100:
        assert {name for _, name in late} == {name for name, _ in told}
    assert {where for _, where in told} == inhabited, "every state with late nodes has one that is named"
    worst = census.worst[0]
    first = shown[worst.name][0]
    assert (worst.kind, worst.state, worst.substate) == place(first)
    assert (await queries.census(rules(limits, name_at_most=0))).worst == ()
    assert len((await queries.census(rules(limits, name_at_most=3))).worst) == 3


async def goes_on(conn: Connection) -> frozenset[str]:
    """The paused nodes whose deletion or cancel goes on, by the handler's rules for a pause."""
    undone = "w.status = 'compensating' AND coalesce(w.after_undo, 'cancel') = 'cancel'"
    rows = await conn.fetch(
        f"""
        SELECT n.name FROM farrier.nodes n
          LEFT JOIN farrier.node_onboardings w ON n.live_workflow_kind = 'onboarding' AND w.id = n.live_workflow_id
         WHERE n.paused IS NOT NULL AND (n.deleting OR {undone})
        UNION
        SELECT n.name FROM farrier.nodes n
          JOIN farrier.node_decommissions w ON n.live_workflow_kind = 'decommission' AND w.id = n.live_workflow_id
         WHERE n.paused IS NOT NULL AND {undone}
        """
    )
    return frozenset(row[0] for row in rows)


def runs(node: NodeView, clock: StateClock, going_on: frozenset[str]) -> bool:
    """Whether the clock runs, because no pause holds its layer."""
    return node.paused is None or (node.name in going_on and clock.layer != Layer.MANAGEMENT)


@pytest.mark.parametrize("seed", range(3))
async def test_every_live_node_is_counted_once_in_each_breakdown(
    conn: Connection, queries: PostgresQueries, seed: int
) -> None:
    dice = random.Random(seed)
    for number in range(150):
        await add_node(conn, dice, f"gpu-{number}")
    # The trigger that does this is disabled on this connection.
    await conn.execute(
        "DELETE FROM farrier.node_agents a USING farrier.nodes n WHERE n.id = a.node_id AND n.status = 'deleted'"
    )
    page = await queries.inventory(NodeFilter(), limit=1000)
    census = await queries.census(rules())
    counted = {(found.kind, found.state): found.count for found in census.places if not found.substate}
    assert {state: n for (kind, state), n in counted.items() if kind == "node"} == Counter(n.status for n in page.rows)
    managed = Counter(node.management for node in page.rows)
    assert {state: n for (kind, state), n in counted.items() if kind == "management" and n} == managed
    assert sum(census.health.values()) == sum(census.power.values()) == len(page.rows)
    assert census.paused == sum(node.paused is not None for node in page.rows)
    assert census.power == await _power(conn)
    assert census.health == await _health(conn) | {"none": census.health["none"]}
    going_on = await goes_on(conn)
    heard = [node for node in page.rows if node.paused is None or node.name in going_on]
    waiting = [node for node in heard if _waits_for_a_person(node)]
    assert sum(census.manual.values()) == len(waiting)


async def _power(conn: Connection) -> dict[str, int]:
    rows = await conn.fetch(
        "SELECT management, CASE WHEN bmc ? 'power_at' THEN bmc ->> 'power' END AS power"
        "  FROM farrier.nodes WHERE status <> 'deleted'"
    )
    known = Counter(
        row["power"] if row["management"] == Management.MANAGEABLE and row["power"] else str(PowerState.UNKNOWN)
        for row in rows
    )
    return {"on": known["on"], "off": known["off"], "unknown": known["unknown"]}


async def _health(conn: Connection) -> dict[str, int]:
    rows = await conn.fetch(
        "SELECT health::text, last_heartbeat_at > farrier.now() - interval '3 min' AS beats FROM farrier.node_agents"
    )
    found = {"ok": 0, "alerting": 0, "blocked": 0, "silent": 0}
    for row in rows:
        text = row["health"].replace(" ", "")
        if not row["beats"]:
            found["silent"] += 1
        elif '"blocks_scheduling":true' in text or '"ok":false' in text:
            found["blocked"] += 1
        elif '"alerts":[{' in text:
            found["alerting"] += 1
        else:
            found["ok"] += 1
    return {word: n for word, n in found.items() if n or word in ("ok", "silent")}


def _waits_for_a_person(node: NodeView) -> bool:
    return node.workflow is not None and node.workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION


async def test_a_paused_node_is_shown_above_its_limit_but_not_counted_as_late_or_waiting(
    conn: Connection, queries: PostgresQueries
) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, status_entered_at, paused)
        VALUES ('a', 'offline', 'unmanaged', farrier.now() - interval '1 h', NULL),
               ('b', 'offline', 'unmanaged', farrier.now() - interval '2 h', '{"reason": "x"}')
        """
    )
    census = await queries.census(rules())
    assert above(census) == {("node", "offline", ""): 1}
    assert [late.name for late in census.worst] == ["a"]
    assert census.paused == 1
    assert {found.count for found in census.places if found.state == "offline"} == {2}
    shown = (await queries.overdue(NodeFilter(), DEFAULT)).rows
    assert [overdue.node.name for overdue in shown] == ["b", "a"]


async def test_a_deleted_node_is_counted_nowhere_and_its_agent_is_gone(
    db: pg.Database, queries: PostgresQueries
) -> None:
    async with db.connect() as client:
        await client.execute("ALTER TABLE farrier.nodes DISABLE TRIGGER USER")
        node = await client.fetchval(
            "INSERT INTO farrier.nodes (name, status, management) VALUES ('a', 'removing', 'manageable') RETURNING id"
        )
        await client.execute("ALTER TABLE farrier.nodes ENABLE TRIGGER USER")
        await client.execute(AGENT, node, timedelta(0), REPORTS[0])
        before = await queries.census(rules())
        assert (before.health["ok"], before.power["unknown"]) == (1, 1)
        await client.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE id = $1", node)
        assert await client.fetchval("SELECT count(*) FROM farrier.node_agents") == 0
    after = await queries.census(rules())
    assert [found for found in after.places if found.count] == []
    assert (sum(after.health.values()), sum(after.power.values())) == (0, 0)


async def test_regions_are_counted_with_their_site_s_limit(conn: Connection, queries: PostgresQueries) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.maas_regions (name, site, url, state, state_entered_at)
        SELECT site, site, 'http://maas', state, farrier.now() - interval '10 min'
          FROM (VALUES ('north', 'failing'), ('south', 'failing'), ('east', 'observing')) r (site, state)
        """
    )
    patient = Limits(sites={"north": {"maas_region.failing": HOUR}})
    assert above(await queries.census(rules(patient))) == {("maas_region", "failing", ""): 1}
    assert above(await queries.census(rules())) == {("maas_region", "failing", ""): 2}


async def test_overdue_readings_are_counted_by_their_source(conn: Connection, queries: PostgresQueries) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.maas_regions (name, site, url, state, complete_at)
        VALUES ('fresh', 'fresh', 'http://maas', 'starting', farrier.now()),
               ('broken', 'broken', 'http://maas', 'failing', NULL),
               ('behind', 'behind', 'http://maas', 'starting', farrier.now() - interval '6 min');
        INSERT INTO farrier.nodes (name, site, status, management, bmc)
        SELECT site || nr, site, 'active', 'manageable',
               jsonb_build_object('sync_failure', CASE WHEN nr > 1 THEN 'timeout' END,
                                  'power_at', farrier.now() - nr * interval '2 min')
          FROM unnest('{fresh, behind, broken, unobserved}'::text[]) site, generate_series(1, 3) nr;
        INSERT INTO farrier.node_observations (node_id, site, system_id, state, since, read_at, stale_since)
        SELECT n.id, n.site, n.name, 'deployed', farrier.now(),
               farrier.now() - right(n.name, 1)::integer * interval '4 min',
               CASE WHEN right(n.name, 1) = '2' THEN farrier.now() END
          FROM farrier.nodes n
        """
    )
    census = await queries.census(rules())
    # In the complete region, the machine with an event; in each of the others, the two that were read long ago.
    assert census.observations_stale == {"bmc": 4, "maas": 3, "maas_failing": 2}
    assert census.unread_power == {"timeout": 8}


async def test_machines_in_an_unknown_status_are_counted(conn: Connection, queries: PostgresQueries) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.maas_regions (name, site, url, state) VALUES ('east', 'east', 'http://maas', 'observing');
        INSERT INTO farrier.nodes (name, site, status, management)
        SELECT 'gpu-' || nr, 'east', 'active', 'unmanaged' FROM generate_series(1, 3) nr;
        INSERT INTO farrier.node_observations (node_id, site, system_id, state, since, read_at)
        SELECT n.id, n.site, n.name, CASE WHEN n.name = 'gpu-3' THEN 'deployed' ELSE 'unknown' END, farrier.now(),
               farrier.now()
          FROM farrier.nodes n
        """
    )
    assert (await queries.census(rules())).maas_status_unknown == 2


async def test_the_conditions_and_refusals_of_monitors_are_counted(
    db: pg.Database, conn: Connection, queries: PostgresQueries
) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    await grant(conn, "short", lasts=timedelta(minutes=5))
    await grant(conn, "long", lasts=timedelta(hours=1))
    await grant(conn, "idle")
    for name in ("short", "long"):
        taken = ({"node": "gpu-1", "id": "gpu/hot", "target": str(number)} for number in range(3))
        await report(conn, *taken, {"node": "gpu-9", "id": "gpu/hot"}, monitor=name)
    await db.advance(timedelta(minutes=10))
    found = {
        each.monitor: (each.known, each.unknown, each.refused) for each in (await queries.census(rules())).monitors
    }
    assert found == {"short": (0, 3, 0), "long": (3, 0, 1), "idle": (0, 0, 0)}


async def test_nodes_are_counted_by_their_conditions(conn: Connection, queries: PostgresQueries) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management)
        SELECT 'gpu-' || nr, 'active', 'unmanaged' FROM generate_series(1, 3) nr;
        INSERT INTO farrier.node_conditions (node, source, id, requested)
        SELECT n.id, c.source, c.id, 'note' FROM farrier.nodes n,
               (VALUES ('gpu-1', 'bmc', 'health'), ('gpu-2', 'bmc', 'health'), ('gpu-2', 'agent', 'hot'),
                       ('gpu-2', 'agent', 'xid'), ('gpu-3', 'operator', 'default')) c (name, source, id)
         WHERE n.name = c.name
        """
    )
    assert (await queries.census(rules())).conditions == {"bmc/health": 2, "agent/*": 1, "operator/*": 1}


async def test_a_bmc_that_was_verified_and_cannot_be_verified_again_counts_as_unread(
    conn: Connection, queries: PostgresQueries
) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, bmc)
        VALUES ('lost', 'active', 'enroll', jsonb_build_object('failure', 'auth', 'verified_at', farrier.now())),
               ('retried', 'active', 'verifying', jsonb_build_object('failure', 'auth', 'verified_at', farrier.now())),
               ('never-verified', 'active', 'enroll', jsonb_build_object('failure', 'auth')),
               ('verified-anew', 'active', 'verifying', jsonb_build_object('verified_at', farrier.now()))
        """
    )
    census = await queries.census(rules())
    assert (census.unread_power, census.observations_stale["bmc"]) == ({"auth": 2}, 2)


async def test_shards_are_counted_by_controller_with_the_age_of_the_oldest_sweep(
    db: pg.Database, pool: Pool, queries: PostgresQueries
) -> None:
    before = (await queries.census(rules())).shards
    assert Owned(kind="node", controller="", count=SHARDS, lag=0) in before
    # Two controllers of one host.
    ids = [await owners.joined(pool, "rack-1", {"node": 20.0}, shards=part) for part in (range(30), range(30, 40))]
    first, second = (f"rack-1 ({str(controller)[:8]})" for controller in ids)
    dead = await owners.joined(pool, "rack-2", {"node": 0.0}, shards=range(40, 60))
    await owners.declared_dead(pool, dead)
    await db.advance(MINUTE)
    found = {each.controller: each for each in (await queries.census(rules())).shards if each.kind == "node"}
    assert {name: each.count for name, each in found.items()} == {first: 30, second: 10, "": SHARDS - 40}
    assert 80 <= found[first].lag < 140
    assert found[""].lag == 0


async def test_wakes_that_no_run_has_seen_are_counted(db: pg.Database, queries: PostgresQueries) -> None:
    async with db.connect() as client:
        await client.execute("SELECT farrier.register_node($1)", "a")
        there = (await queries.census(rules())).wakes
        await client.execute("SELECT farrier.enqueue('node', id) FROM farrier.nodes")
    assert (await queries.census(rules())).wakes == there + 1


async def test_unanswered_intents_are_counted_with_the_age_of_the_oldest(
    db: pg.Database, queries: PostgresQueries
) -> None:
    async with db.connect() as client:
        for name in ("a", "b"):
            await client.execute("SELECT farrier.register_node($1)", name)
        await client.execute("INSERT INTO farrier.intents (node, action) VALUES ('a', 'cancel'), ('b', 'cancel')")
        await client.execute("""UPDATE farrier.nodes SET paused = '{"reason": "x"}' WHERE name = 'a'""")
    await db.advance(MINUTE)
    census = await queries.census(rules())
    assert census.intents_pending == 2
    assert 60 <= census.oldest_intent < 120
    async with db.connect() as client:
        await client.execute("""UPDATE farrier.nodes SET paused = '{"reason": "x"}'""")
    assert 60 <= (await queries.census(rules())).oldest_intent < 120, "a cancel is answered while the node is paused"
    async with db.connect() as client:
        await client.execute("ALTER TABLE farrier.intents DISABLE TRIGGER USER")
        await client.execute("UPDATE farrier.intents SET action = 'drain'")
    assert (await queries.census(rules())).oldest_intent == 0, "intents that a pause holds are not late"
