"""The brake: a broken network, region or path of heartbeats does not take all nodes of a site out of service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from farrier.config import NodeConfig
from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.io.schema import catalog
from farrier.model.advice.explanation import explain
from farrier.model.machine.health import BRAKE_RETRY
from farrier.model.node.limits import Limits
from tests.integration.test_census import rules
from tests.support import pg
from tests.support import site as sites
from tests.support.loop import PATIENCE
from tests.support.site import MINUTE, SECOND, Machine, Site

HALF = NodeConfig(brake_share=0.5, brake_at_least=2)
HOLDS = 3 * BRAKE_RETRY
OFFLINE_BY_SITE = "SELECT site, count(*) FROM farrier.nodes WHERE status = 'offline'"


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    """A site whose brake lets half of the nodes, and at least one, leave service within the window."""
    async with sites.opened(db) as opened:
        await catalog.set_settings(opened.conn, HALF)
        yield opened


async def fleet(site: Site, many: int, place: str | None = "ams1") -> list[Machine]:
    """Nodes in service at one site."""
    machines = [await site.register(site=place) for _ in range(many)]
    for machine in machines:
        await machine.tell("onboard", mode="manual")
    await site.settled()
    for machine in machines:
        await machine.enroll()
    await beat(machines)
    assert {(await machine.state())[0] for machine in machines} == {"active"}
    return machines


async def later(site: Site, by: timedelta) -> None:
    """Let time pass, and then two seconds more: one second after the brake has refused a run, the loop repeats it."""
    await site.wait(by)
    await site.wait(2 * SECOND)


async def admitted(conn: Connection, machines: Sequence[Machine], source: str = "silence") -> bool:
    """Whether the brake admits a commit that takes these nodes out of service."""
    ids = [machine.id for machine in machines]
    held = await conn.fetchval("SELECT farrier.held_by_brakes($1, $2)", ids, [source] * len(ids))
    return not held


async def waits_for_a_lock(site: Site) -> None:
    """Return once another connection waits for a lock that this test holds."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with anyio.fail_after(PATIENCE):
        while not await site.conn.fetchval(waiting):
            await anyio.lowlevel.checkpoint()


async def beat(machines: Sequence[Machine]) -> None:
    for machine in machines:
        await machine.send_health({"ok": True})
    await machines[0].site.settled()


async def waits_for(site: Site, machine: Machine) -> str:
    page = await PostgresQueries(site.pool).node(machine.name)
    return explain(page.rows[0], page.now, Limits()).reason


async def status_of(machines: Sequence[Machine]) -> list[str]:
    return [(await machine.state())[0] for machine in machines]


async def test_when_all_nodes_of_a_site_fall_silent_all_stay_in_service(site: Site) -> None:
    machines = await fleet(site, 6)
    for _ in range(4):
        await later(site, 10 * MINUTE)
        assert await status_of(machines) == ["active"] * 6
    assert "the brake of the site keeps the node in service" in await waits_for(site, machines[0])


async def test_a_run_that_the_brake_holds_is_deferred_and_is_no_conflict(site: Site) -> None:
    await fleet(site, 6)
    for _ in range(4):
        await later(site, 10 * MINUTE)
    assert len(site.ledger.verdicts) >= 4 * 6
    assert set(site.ledger.verdicts) == {"deferred"}


async def test_a_few_silent_nodes_leave_service(site: Site) -> None:
    machines = await fleet(site, 6)
    await site.pass_time(2 * MINUTE)
    await beat(machines[3:])
    await later(site, 2 * MINUTE)
    assert await status_of(machines) == ["offline"] * 3 + ["active"] * 3


async def test_nodes_that_left_within_the_window_count(site: Site) -> None:
    machines = await fleet(site, 6)
    await site.pass_time(2 * MINUTE)
    await beat(machines[3:])
    await later(site, 2 * MINUTE)
    await later(site, 3 * MINUTE)
    assert await status_of(machines) == ["offline"] * 3 + ["active"] * 3


async def test_one_silent_node_may_always_leave_service(site: Site) -> None:
    machines = await fleet(site, 2)
    await site.pass_time(2 * MINUTE)
    await beat(machines[1:])
    await later(site, 2 * MINUTE)
    assert await status_of(machines) == ["offline", "active"]


async def test_the_brake_ends_when_heartbeats_return_and_a_dead_node_leaves_service(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    for _ in range(10):
        await beat(machines[1:])
        await later(site, 2 * MINUTE)
    assert await status_of(machines) == ["offline"] + ["active"] * 5
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.brakes_holding") == 0


async def test_recovered_nodes_are_soon_no_longer_held(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    assert "the brake of the site keeps the node in service" in await waits_for(site, machines[0])
    for _ in range(2):
        await beat(machines)
        await later(site, HOLDS / 2)
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.brakes_holding") == 0
    page = await PostgresQueries(site.pool).node(machines[0].name)
    assert page.rows[0].braked_at is None


async def test_nodes_that_stay_silent_stay_held(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 4 * MINUTE)
    for _ in range(12):
        await later(site, MINUTE)
        assert await site.conn.fetchval("SELECT held FROM farrier.brakes_holding") == 6
    assert await status_of(machines) == ["active"] * 6


async def test_soon_after_a_false_alarm_a_dead_node_leaves_service(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    for _ in range(2):
        await beat(machines[1:])
        await later(site, HOLDS / 2)
    await later(site, BRAKE_RETRY)
    assert await status_of(machines) == ["offline"] + ["active"] * 5


async def test_an_operator_can_lift_the_brake(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'power failure in hall 2')")
    await later(site, 6 * MINUTE)
    assert await status_of(machines) == ["offline"] * 6
    assert await site.conn.fetchval("SELECT reason FROM farrier.brake_lifts") == "power failure in hall 2"


async def test_an_operator_can_end_a_lift(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'the wrong site', '24 hours')")
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'as I said', '0')")
    await later(site, 10 * MINUTE)
    assert await status_of(machines) == ["active"] * 6


async def test_a_lift_is_refused_if_the_brake_holds_no_node(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    for _ in range(10):
        await beat(machines)
        await later(site, 2 * MINUTE)
    with pytest.raises(asyncpg.PostgresError, match="holds no node") as refusal:
        await site.conn.execute("SELECT farrier.lift_brake('ams1', 'just in case')")
    assert refusal.value.sqlstate == "FR409"


async def test_an_uncommitted_lift_does_not_delay_a_commit(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    async with site.db.connect() as client, client.transaction():
        await client.execute("SELECT farrier.lift_brake('ams1', 'being typed')")
        await site.conn.execute("SET lock_timeout = '50ms'")
        assert not await admitted(site.conn, machines)


async def test_each_site_has_its_own_brake_and_nodes_without_a_site_share_one(site: Site) -> None:
    await fleet(site, 6)
    await fleet(site, 1, "fra1")
    await fleet(site, 1, None)
    await later(site, 10 * MINUTE)
    left = await site.conn.fetch(f"{OFFLINE_BY_SITE} GROUP BY site ORDER BY site")
    assert [tuple(row) for row in left] == [("fra1", 1), (None, 1)]


async def test_a_commit_reads_only_the_nodes_of_the_sites_that_it_takes_nodes_from(site: Site) -> None:
    machines = await fleet(site, 3)
    async with site.conn.transaction():
        await site.conn.execute("SET LOCAL session_replication_role = replica")
        await site.conn.execute(
            "INSERT INTO farrier.nodes (name, site, status, management) "
            "SELECT 'far-' || n, 'far-' || n % 100, 'active', 'unmanaged' FROM generate_series(1, 2000) n"
        )
        await site.conn.execute("ANALYZE farrier.nodes")
    async with site.conn.transaction():
        await admitted(site.conn, machines)
        read = await site.conn.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'farrier.nodes'::regclass"
        )
    assert read < 200  # rows and their dead versions; there are two thousand nodes


async def test_commits_of_one_site_count_one_after_the_other(site: Site) -> None:
    """Concurrent commits of several controllers, in any order, let no more nodes leave than the brake allows."""
    machines = await fleet(site, 6)
    async with site.db.connect() as other, anyio.create_task_group() as group:
        let_through: list[bool] = []

        async def second() -> None:
            let_through.append(await admitted(other, machines[3:]))

        async with site.conn.transaction():
            assert await admitted(site.conn, machines[:3])
            group.start_soon(second)
            await waits_for_a_lock(site)
    assert let_through == [False]


async def test_a_node_that_tries_to_leave_again_counts_once(site: Site) -> None:
    machines = await fleet(site, 6)
    assert [await admitted(site.conn, machines[:3]) for _ in range(3)] == [True] * 3


async def test_a_departure_counts_for_the_window_and_a_minute_at_most(site: Site) -> None:
    machines = await fleet(site, 6)
    assert await admitted(site.conn, machines[:1])
    await site.db.advance(HALF.brake_window - 20 * SECOND)
    assert await admitted(site.conn, machines[1:2])  # this commit counts the departures of the site
    await site.db.advance(MINUTE + SECOND)
    assert await admitted(site.conn, machines[2:4])
    assert not await admitted(site.conn, machines[4:5])


async def test_the_census_counts_sites_whose_brake_holds(site: Site) -> None:
    await fleet(site, 6)
    await later(site, 10 * MINUTE)
    census = await PostgresQueries(site.pool).census(rules(Limits()))
    assert census.brakes_holding == 1


async def test_a_bad_release_of_the_agent_does_not_empty_a_site(site: Site) -> None:
    machines = await fleet(site, 6)
    for machine in machines:
        await machine.send_health({"ok": False})
    await site.settled()
    await later(site, MINUTE)
    left = (await status_of(machines)).count("quarantined")
    assert left <= 3
    held = await site.conn.fetch("SELECT source, held FROM farrier.brakes_holding")
    assert [tuple(row) for row in held] == [("agent", 6 - left)]


async def test_each_cause_has_its_own_brake_and_holds_of_operators_have_none(site: Site) -> None:
    machines = await fleet(site, 6)
    assert await admitted(site.conn, machines[:3], "agent")
    assert await admitted(site.conn, machines[:3], "silence")
    assert not await admitted(site.conn, machines[3:], "silence")
    for machine in machines:
        await machine.asked("quarantine", reason="hall 2 closes")
    assert await status_of(machines) == ["quarantined"] * 6
