"""Which machines the database finds due to be read, and which not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from farrier.config.sites import MaasSite, ObserveSite, Site
from farrier.io.connections.pool import Pool
from farrier.io.kinds import maas_region
from farrier.io.kinds.built_in import REGION_ROWS
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.maas.region import MaasRegion, RegionWrite
from farrier.model.machine.expected import Contradiction, contradictions
from farrier.model.machine.observation import CONFIRMED_AFTER
from farrier.model.node.conditions import DISAGREEMENT, KNOWN, Known, Source
from farrier.model.node.stages import OUTSIDE_MAAS, PATHS
from tests.support import pg

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

_READ = """
    UPDATE farrier.node_observations
       SET state = $2, since = farrier.now(), read_at = farrier.now(), stale_since = NULL WHERE node_id = $1
"""
# Makes the node's onboarding one that has run for this long.
_RUNNING = """
    UPDATE farrier.node_onboardings
       SET mode = $2, status = 'running', stage = 'wait_for_ready', status_entered_at = farrier.now() - $3::interval,
           stage_entered_at = farrier.now() - $3::interval
     WHERE node_id = $1
"""
_WAKES = """
    SELECT farrier.affected_nodes(jsonb_build_array(jsonb_build_object(
               'node', o.node_id, 'system_id', o.system_id, 'state', o.state, 'detail', o.detail,
               'read_at', farrier.now())))
      FROM farrier.node_observations o WHERE o.node_id = $1
"""
_BEGIN = "UPDATE farrier.node_onboardings SET status = 'running' WHERE node_id = $1"
_END = """
    WITH ended AS (UPDATE farrier.node_onboardings SET status = $3 WHERE node_id = $1)
    UPDATE farrier.nodes SET live_workflow_kind = NULL, live_workflow_id = NULL, status = $2 WHERE id = $1
"""
_HOLD = """
    INSERT INTO farrier.node_conditions (node, source, id, requested, effect)
    VALUES ($1, $2, $3, 'quarantine', 'quarantine')
"""

_WOKEN = "SELECT count(DISTINCT resource) FROM farrier.wakes WHERE kind = 'maas_region'"


class Rows:
    """Nodes of site north in a database, with observations that a test sets, and queries of the due machines."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._io: PostgresStateIO[MaasRegion, MaasRegion, RegionWrite] = PostgresStateIO(pool, REGION_ROWS)

    async def node(self, name: str, *, read: str | None = "deployed", site: str | None = "north") -> int:
        """Insert a node with a machine of its name, which was just read in this state; None: never read."""
        register = "SELECT farrier.register_node($1, maas_id => $1, site => $2)"
        id_: int = await self.pool.fetchval(register, name, site)
        if read is not None:
            await self.pool.execute(_READ, id_, read)
        return id_

    async def nodes(self, many: int) -> None:
        for number in range(many):
            await self.node(f"n{number:03}")

    async def change(self, statement: str, *arguments: Any) -> None:
        await self.pool.execute(statement, *arguments)

    async def becomes(self, node: int, status: str, cause: Known | None = None) -> None:
        """Move the node to a status along the model's edges; its workflow ends as the model requires."""
        await self.pool.execute(_BEGIN, node)
        first, ends = ("quarantined", "cancelled") if status == "quarantined" else ("active", "completed")
        await self.pool.execute(_END, node, first, ends)
        if cause is not None:
            await self.pool.execute(_HOLD, node, cause.source, cause.id)
        if status == "offline":
            await self.pool.execute("UPDATE farrier.nodes SET status = 'offline' WHERE id = $1", node)

    async def says_absent(self, *nodes: int) -> None:
        """Record an observation that these nodes have no machines."""
        write = """
            SELECT farrier.write_maas_regions(jsonb_build_object(
                'kind', (SELECT jsonb_agg(jsonb_build_object('run', r.id, 'kind', 'maas_region'))
                           FROM farrier.maas_regions r WHERE r.name = 'north'),
                'runs', (SELECT jsonb_agg(jsonb_build_object('run', r.id, 'version', r.version))
                           FROM farrier.maas_regions r WHERE r.name = 'north'),
                'readings', (SELECT jsonb_agg(jsonb_build_object(
                                 'node', n.id, 'system_id', n.maas_id, 'state', 'absent', 'read_at', farrier.now(),
                                 'detail', '{}'::jsonb))
                               FROM farrier.nodes n WHERE n.id = ANY ($1::bigint[]))))
        """
        await self.pool.execute(write, nodes)

    async def region(self) -> MaasRegion:
        id_ = await self.pool.fetchval("SELECT id FROM farrier.maas_regions WHERE name = 'north'")
        loaded = await self._io.load([id_])
        return loaded.resources[id_]

    async def due(self) -> list[str]:
        return [one.system_id for one in (await self.region()).due]


def a_site(name: str, url: str = "http://maas.test/MAAS") -> Site:
    pace = ObserveSite(motion_every=30 * SECOND, sweep_every=30 * MINUTE)
    return Site(name=name, maas=MaasSite(url=url, key="env:KEY"), observe=pace)


@pytest.fixture
async def rows(db: pg.Database) -> AsyncIterator[Rows]:
    async with db.pool(1) as pool:
        await maas_region.use(pool, {site: a_site(site) for site in ("north", "south")})
        yield Rows(pool)


async def test_a_machine_that_was_never_read_is_due(rows: Rows) -> None:
    await rows.node("new", read=None)
    assert await rows.due() == ["new"]


async def test_machines_of_another_site_or_of_no_site_are_not_due(rows: Rows) -> None:
    await rows.node("south", read=None, site="south")
    await rows.node("nowhere", read=None, site=None)
    assert await rows.due() == []


async def test_a_machine_that_was_read_and_rests_is_not_due(rows: Rows, db: pg.Database) -> None:
    await rows.node("resting", read="ready")
    await db.advance(5 * MINUTE)
    assert await rows.due() == []


async def test_a_new_machine_id_of_a_node_is_due_and_the_old_observation_is_cleared(rows: Rows) -> None:
    node = await rows.node("first")
    await rows.change("UPDATE farrier.nodes SET maas_id = 'second' WHERE id = $1", node)
    assert await rows.due() == ["second"]
    assert await rows.pool.fetchval("SELECT state FROM farrier.node_observations WHERE node_id = $1", node) is None
    await rows.change("UPDATE farrier.nodes SET maas_id = NULL WHERE id = $1", node)
    assert await rows.due() == []


async def test_a_machine_in_motion_is_due_again_after_half_a_minute(rows: Rows, db: pg.Database) -> None:
    node = await rows.node("moving", read="commissioning")
    await rows.change(_RUNNING, node, "deploy", MINUTE)
    await db.advance(28 * SECOND)
    assert await rows.due() == []
    await db.advance(3 * SECOND)
    assert await rows.due() == ["moving"]


async def test_a_stage_that_has_just_begun_has_its_machine_read_at_once(rows: Rows) -> None:
    node = await rows.node("moving", read="commissioning")
    await rows.change(_RUNNING, node, "deploy", 0 * SECOND)
    assert await rows.due() == ["moving"]


async def test_a_workflow_that_does_not_use_maas_moves_no_machine(rows: Rows, db: pg.Database) -> None:
    node = await rows.node("still", read="ready")
    await rows.change(_RUNNING, node, "manual", 0 * SECOND)
    await db.advance(MINUTE)
    assert await rows.due() == []


async def test_the_model_defines_which_modes_move_a_machine(rows: Rows, db: pg.Database) -> None:
    table = await rows.pool.fetch("SELECT mode, uses_maas FROM farrier.workflow_modes")
    assert {row["mode"]: not row["uses_maas"] for row in table} == {mode: mode in OUTSIDE_MAAS for mode in PATHS}
    node = await rows.node("moving", read="ready")
    await rows.change(_RUNNING, node, "deploy", 0 * SECOND)
    await db.advance(MINUTE)
    assert await rows.due() == ["moving"]
    await rows.change("UPDATE farrier.workflow_modes SET uses_maas = false WHERE mode = 'deploy'")
    assert await rows.due() == []


@pytest.mark.parametrize(
    ("status", "cause", "due"),
    [
        ("active", None, True),
        ("offline", None, True),
        *(("quarantined", known, known.source == Source.REGION) for known in KNOWN),
    ],
)
async def test_a_contradicting_machine_is_due_when_a_second_reading_can_confirm_it(
    rows: Rows, db: pg.Database, status: str, cause: Known | None, due: bool
) -> None:
    node = await rows.node("odd", read="ready")
    await rows.becomes(node, status, cause)
    await db.advance(CONFIRMED_AFTER - 2 * SECOND)
    assert await rows.due() == []
    await db.advance(3 * SECOND)
    assert await rows.due() == (["odd"] if due else [])


async def test_the_model_defines_which_states_contradict_a_node(rows: Rows, db: pg.Database) -> None:
    table = await rows.pool.fetch("SELECT state, statuses, lasts FROM farrier.contradictions")
    found = {Contradiction(row["state"], frozenset(row["statuses"]), row["lasts"]) for row in table}
    assert found == set(contradictions())
    await rows.becomes(await rows.node("odd", read="ready"), "active")
    await rows.becomes(await rows.node("fine"), "active")
    await db.advance(CONFIRMED_AFTER)
    assert await rows.due() == ["odd"]
    await rows.change("UPDATE farrier.contradictions SET statuses = '{}' WHERE state = 'ready'")
    assert await rows.due() == []


async def test_a_node_runs_when_its_machine_is_confirmed_to_be_deployed_again(rows: Rows, db: pg.Database) -> None:
    node = await rows.node("back")
    await rows.becomes(node, "quarantined", Known(Source.REGION, DISAGREEMENT))
    for passed, confirms in ((CONFIRMED_AFTER - SECOND, False), (2 * SECOND, True)):
        await db.advance(passed)
        assert await rows.pool.fetchval(_WAKES, node) == ([node] if confirms else [])


async def test_a_constant_of_the_model_defines_when_a_contradiction_is_confirmed(rows: Rows, db: pg.Database) -> None:
    """The query of due machines and the query that enqueues nodes use the constant."""
    node = await rows.node("odd", read="ready")
    await rows.becomes(node, "active")
    await rows.change("UPDATE farrier.constants SET confirmed_after = '20 seconds'")
    for passed, confirms in ((18 * SECOND, False), (3 * SECOND, True)):
        await db.advance(passed)
        assert await rows.due() == (["odd"] if confirms else [])
        assert await rows.pool.fetchval(_WAKES, node) == ([node] if confirms else [])


async def test_an_unreadable_machine_is_not_due_until_its_retry_time(rows: Rows, db: pg.Database) -> None:
    await rows.node("odd", read=None)
    await rows.change(
        "UPDATE farrier.maas_regions SET unreadable = jsonb_build_object('odd', farrier.now() + interval '1 minute')"
    )
    assert await rows.due() == []
    await db.advance(MINUTE)
    assert await rows.due() == ["odd"]


async def test_the_sweep_reads_every_machine_in_requests_of_bounded_size(rows: Rows, db: pg.Database) -> None:
    await rows.nodes(120)
    turns = []
    for passed in range(1, 61):
        await db.advance(MINUTE)
        region = await rows.region()
        assert (region.turn_at is not None) is bool(region.due)
        if region.turn_at is not None:
            turns.append((passed, len(region.due)))
            await rows.change("UPDATE farrier.maas_regions SET swept_at = $1 WHERE site = 'north'", region.turn_at)
            for one in region.due:
                await rows.change(_READ, one.node, "deployed")
    # 120 machines take three requests.
    assert turns == [(10, 40), (20, 40), (30, 40), (40, 40), (50, 40), (60, 40)]
    oldest = await rows.pool.fetchval("SELECT max(farrier.now() - read_at) FROM farrier.node_observations")
    assert oldest < 21 * MINUTE


async def test_after_an_outage_the_sweep_does_not_catch_up_at_once(rows: Rows, db: pg.Database) -> None:
    await rows.nodes(120)
    await db.advance(timedelta(days=1))
    region = await rows.region()
    assert len(region.due) == 80
    await rows.change("UPDATE farrier.maas_regions SET swept_at = $1", region.turn_at)
    assert await rows.due() == []


async def test_a_small_site_is_swept_in_one_request(rows: Rows, db: pg.Database) -> None:
    await rows.nodes(3)
    await db.advance(29 * MINUTE)
    assert await rows.due() == []
    await db.advance(2 * MINUTE)
    assert len(await rows.due()) == 3


async def test_the_most_urgent_machines_come_first_and_a_poll_reads_a_bounded_number(
    rows: Rows, db: pg.Database
) -> None:
    for number in range(160):
        await rows.node(f"new{number:03}", read=None)
    moving = await rows.node("moving", read="deploying")
    await rows.change(_RUNNING, moving, "deploy", 0 * SECOND)
    stale = await rows.node("stale", read="ready")
    await db.advance(5 * SECOND)
    await rows.change("UPDATE farrier.node_observations SET stale_since = farrier.now() WHERE node_id = $1", stale)
    region = await rows.region()
    assert [one.system_id for one in region.due[:2]] == ["moving", "stale"]
    assert (len(region.due), region.more) == (150, True)
    assert [one.urgent for one in region.due[:3]] == [False, False, False], "the machine in motion had no event"


async def test_a_moving_machine_with_an_event_comes_before_other_moving_machines(rows: Rows, db: pg.Database) -> None:
    for number in range(160):
        await rows.change(_RUNNING, await rows.node(f"moving{number:03}", read="deploying"), "deploy", MINUTE)
    last = await rows.node("told", read="deploying")
    await rows.change(_RUNNING, last, "deploy", MINUTE)
    await db.advance(31 * SECOND)
    await rows.change("UPDATE farrier.node_observations SET stale_since = farrier.now() WHERE node_id = $1", last)
    due = (await rows.region()).due
    assert [one.system_id for one in due if one.urgent] == ["told"]
    assert due[0].system_id == "told" and len(due) == 150


async def test_a_machine_with_constant_events_is_read_every_few_seconds_only(rows: Rows, db: pg.Database) -> None:
    busy = await rows.node("busy")
    happened = "UPDATE farrier.node_observations SET stale_since = farrier.now() WHERE node_id = $1"
    await db.advance(2 * SECOND)
    await rows.change(happened, busy)
    assert await rows.due() == []
    await db.advance(SECOND)
    assert await rows.due() == ["busy"]


async def test_a_region_full_of_machines_in_motion_starves_nothing(rows: Rows, db: pg.Database) -> None:
    """More machines have events than can be read: first readings, contradictions and the sweep get their share."""
    odd, resting = await rows.node("odd", read="ready"), await rows.node("resting", read="ready")
    await rows.becomes(odd, "active")
    await rows.nodes(200)
    await rows.change(
        "UPDATE farrier.node_onboardings SET mode = 'deploy', status = 'running' WHERE node_id > $1", resting
    )
    unread = await rows.node("unread", read=None)
    await db.advance(31 * MINUTE)
    region = await rows.region()
    assert {odd, unread, resting} <= {one.node for one in region.due}
    assert region.more and region.turn_at is not None

    happened = "UPDATE farrier.node_observations SET stale_since = farrier.now() WHERE node_id > $1"
    read: dict[int, int] = {}
    for _ in range(10):
        await db.advance(10 * SECOND)
        await rows.change(happened, resting)
        for one in (await rows.region()).due[:50]:
            read[one.node] = read.get(one.node, 0) + 1
            await rows.change(_READ, one.node, "deploying")
    assert len(read) >= 200, "every machine is read before any is read repeatedly"
    assert max(read.values()) <= 4


async def test_machines_of_the_sweep_that_did_not_fit_are_read_later(rows: Rows, db: pg.Database) -> None:
    """Fifty machines are due by the sweep, and half of them are read beside the many machines with events."""
    await rows.nodes(150)
    await db.advance(10 * MINUTE)
    happened = "UPDATE farrier.node_observations SET stale_since = farrier.now() WHERE node_id > 50"
    await rows.change(happened)
    region = await rows.region()
    begun = await rows.pool.fetchval("SELECT created_at FROM farrier.maas_regions WHERE site = 'north'")
    assert len(region.due) == 150 and region.turn_at is not None
    await rows.change(
        "UPDATE farrier.node_observations SET read_at = NULL, state = NULL, since = NULL WHERE node_id > 100"
    )
    region = await rows.region()
    taken = sum(one.node <= 50 for one in region.due)
    assert region.turn_at is not None
    assert (region.turn_at - begun) / (30 * MINUTE) == pytest.approx(taken / 150, abs=0.01)


async def test_lost_machines_are_counted_but_not_those_of_a_decommission(rows: Rows, db: pg.Database) -> None:
    here, lost, leaving = [await rows.node(name) for name in ("here", "lost", "leaving")]
    never = await rows.node("never", read=None)
    await rows.change("SET session_replication_role = replica")
    await rows.change("UPDATE farrier.nodes SET live_workflow_kind = 'decommission' WHERE id = $1", leaving)
    await rows.change("SET session_replication_role = origin")
    await db.advance(31 * MINUTE)
    region = await rows.region()
    assert {one.node: one.present for one in region.due} == {here: True, lost: True, leaving: False, never: False}
    assert (region.present, region.lost) == (3, 0)
    await rows.says_absent(lost, leaving, never)
    assert ((await rows.region()).present, (await rows.region()).lost) == (1, 1)
    await db.advance(10 * MINUTE)
    await rows.says_absent(lost)
    await db.advance(51 * MINUTE)
    assert (await rows.region()).lost == 0, "an hour after the loss, however often the loss was observed"


async def test_the_database_refuses_a_move_that_the_model_lacks(rows: Rows) -> None:
    with pytest.raises(pg.PostgresError, match="a new maas region cannot have the state failing"):
        await rows.change(
            "INSERT INTO farrier.maas_regions (name, url, state) VALUES ('east', 'http://maas', 'failing')"
        )
    await rows.change("UPDATE farrier.maas_regions SET state = 'failing'")
    with pytest.raises(pg.PostgresError, match="no edge failing -> starting"):
        await rows.change("UPDATE farrier.maas_regions SET state = 'starting'")


async def test_sites_may_be_written_again_and_other_sites_stay(rows: Rows) -> None:
    await rows.change(
        "UPDATE farrier.maas_regions SET cursor = '{\"newest\": 7}', username = 'admin', next_try_at = farrier.now()"
    )
    await maas_region.use(rows.pool, {"north": a_site("north")})
    region = await rows.region()
    assert (region.cursor.newest, region.username, region.next_try_at) == (7, "admin", None)
    assert await rows.pool.fetchval(_WOKEN) == 2


async def test_a_site_with_another_region_begins_anew(rows: Rows) -> None:
    await rows.change("UPDATE farrier.maas_regions SET cursor = '{\"newest\": 7}', username = 'admin'")
    await maas_region.use(rows.pool, {"north": a_site("north", "http://other.test/MAAS")})
    region = await rows.region()
    assert (region.cursor.newest, region.username, region.complete_at) == (None, None, None)
