"""A broken network, region or path of heartbeats does not take a site's nodes out of service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import asyncpg
import pytest

from farrier.config import NodeConfig
from farrier.io import catalog
from farrier.io.pool import Connection
from farrier.io.queries import PostgresQueries
from farrier.model.limits import Limits
from farrier.model.why import explain
from tests.integration.test_census import rules
from tests.support import pg
from tests.support import site as sites
from tests.support.site import MINUTE, SECOND, Machine, Site

HALF = NodeConfig(brake_share=0.5, brake_at_least=2)
OFFLINE_BY_SITE = "SELECT site, count(*) FROM farrier.nodes WHERE status = 'offline'"
OFFLINE = "SELECT count(*) FROM farrier.nodes WHERE status = 'offline'"


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    """A site of which two nodes may leave service at once, and of more than four one half."""
    async with sites.opened(db) as opened:
        await catalog.set_brakes(opened.conn, HALF)
        await catalog.set_offline_after(opened.conn, HALF.offline_after)
        yield opened


async def fleet(site: Site, many: int, place: str | None = "ams1") -> list[Machine]:
    """Nodes in service at one site."""
    machines = []
    for _ in range(many):
        machine = await site.register(site=place)
        await machine.asked("onboard", mode="manual")
        machines.append(await (await machine.enroll()).beat())
    assert {(await machine.state())[0] for machine in machines} == {"active"}
    return machines


async def later(site: Site, by: timedelta) -> None:
    """Time passes; a run that the brake refused comes a second later."""
    await site.wait(by)
    await site.wait(2 * SECOND)


async def admitted(conn: Connection, machines: Sequence[Machine]) -> bool:
    """Whether a commit that takes these nodes out of service is let through."""
    ids = [machine.id for machine in machines]
    held = await conn.fetchval(
        "SELECT farrier.held_by_brakes($1::jsonb, $2)", sites.as_json([{"run": id_} for id_ in ids]), ids
    )
    return not held


async def beat(machines: Sequence[Machine]) -> None:
    for machine in machines:
        await machine.beat()


async def waits_for(site: Site, machine: Machine) -> str:
    page = await PostgresQueries(site.pool).node(machine.name)
    return explain(page.rows[0], page.now, Limits()).waits_for


async def test_a_site_that_falls_silent_as_a_whole_stays_in_service(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    assert {(await machine.state())[0] for machine in machines} == {"active"}
    assert "kept in service by the brake of its site" in await waits_for(site, machines[0])


async def test_a_few_that_fall_silent_leave_service(site: Site) -> None:
    machines = await fleet(site, 6)
    silent, alive = machines[:3], machines[3:]
    await site.pass_time(2 * MINUTE)
    await beat(alive)
    await later(site, 2 * MINUTE)
    assert [(await machine.state())[0] for machine in silent] == ["offline"] * 3
    assert [(await machine.state())[0] for machine in alive] == ["active"] * 3


async def test_those_that_left_within_the_window_count(site: Site) -> None:
    machines = await fleet(site, 6)
    await site.pass_time(2 * MINUTE)
    await beat(machines[3:])
    await later(site, 2 * MINUTE)
    assert await site.conn.fetchval(OFFLINE) == 3
    await later(site, 3 * MINUTE)
    assert await site.conn.fetchval(OFFLINE) == 3, "the other half stays"


async def test_it_ends_by_itself_when_the_heartbeats_are_back_and_what_is_dead_leaves(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    dead, alive = machines[0], machines[1:]
    await beat(alive)
    await later(site, 2 * MINUTE)
    assert (await dead.state())[0] == "offline"
    assert {(await machine.state())[0] for machine in alive} == {"active"}
    assert await site.conn.fetchval("SELECT since IS NULL FROM farrier.brakes WHERE site = 'ams1'")


async def test_an_operator_lets_the_moves_go_on(site: Site) -> None:
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'power failure in hall 2')")
    await later(site, 2 * MINUTE)
    assert {(await machine.state())[0] for machine in machines} == {"offline"}


async def test_a_lift_ends_and_is_refused_where_nothing_is_held(site: Site) -> None:
    with pytest.raises(asyncpg.PostgresError, match="holds nothing") as refusal:
        await site.conn.execute("SELECT farrier.lift_brake('ams1', 'just in case')")
    assert refusal.value.sqlstate == "FR409"
    machines = await fleet(site, 6)
    await later(site, 10 * MINUTE)
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'a test', '10 seconds')")
    await later(site, 11 * SECOND)
    await beat(machines)
    await later(site, timedelta(hours=1))
    assert {(await machine.state())[0] for machine in machines} <= {"active", "offline"}
    await beat(machines)
    assert {(await machine.state())[0] for machine in machines} == {"active"}
    await later(site, timedelta(hours=1))
    assert {(await machine.state())[0] for machine in machines} == {"active"}


async def test_one_site_does_not_hold_another_and_no_site_is_one(site: Site) -> None:
    await fleet(site, 6)
    await fleet(site, 2, "fra1")
    await fleet(site, 2, None)
    await later(site, 10 * MINUTE)
    left = await site.conn.fetch(
        "SELECT site, count(*) FROM farrier.nodes WHERE status = 'offline' GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in left] == [("fra1", 2), (None, 2)]


async def test_drift_counts_as_silence_does(site: Site) -> None:
    machines = await fleet(site, 3)
    for machine in machines:
        await site.conn.execute("UPDATE farrier.nodes SET maas_id = 'm' || id WHERE id = $1", machine.id)
    await site.conn.execute(
        "UPDATE farrier.node_observations SET state = 'ready', since = farrier.now(), read_at = farrier.now()"
    )
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.about_to_leave('ams1')") == 3
    assert not await admitted(site.conn, machines[:1])


async def test_commits_of_one_site_count_one_after_the_other(site: Site) -> None:
    """However many controllers decide at once, no more nodes leave than are allowed."""
    machines = await fleet(site, 6)
    async with site.db.connect() as other:
        async with site.conn.transaction():
            assert await admitted(site.conn, machines[:3])
            await other.execute("SET lock_timeout = '50ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await admitted(other, machines[3:])
        assert not await admitted(other, machines[3:])


async def test_the_census_counts_sites_whose_brake_holds(site: Site) -> None:
    await fleet(site, 6)
    await later(site, 10 * MINUTE)
    census = await PostgresQueries(site.pool).census(rules(Limits()))
    assert census.brakes_holding == 1
