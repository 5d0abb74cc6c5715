"""While no door reaches agents, the silence of agents that use doors does not count: a dead door is no dead fleet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from farrier.config import NodeConfig
from farrier.io.calls.doors import PostgresDoor
from farrier.io.connections.pulse import PostgresPulse
from farrier.model.loop.doors import PULSE_LOST, REACH_EXPECTED, REACH_LOST, DoorKind
from farrier.model.node.layers import Layer
from farrier.model.node.sla import stage_deadline
from farrier.model.node.snapshot import TaskType
from farrier.model.node.stages import OnboardingStage
from tests.support import pg
from tests.support import site as sites
from tests.support.site import MINUTE, SECOND, Machine, Site

OFFLINE_AFTER = NodeConfig().offline_after
TEN_MINUTES = 10 * MINUTE
EVERY = 30 * SECOND
_HEAR = """
    SELECT array_agg(t.verdict) FROM farrier.take_beats((
        SELECT jsonb_agg(jsonb_build_object('place', place, 'key', encode(farrier.digest(key), 'hex'), 'boot', $2::uuid,
                                            'health', '{"ok": true}'::jsonb))
          FROM unnest($1::text[]) WITH ORDINALITY u (key, place))) t
"""


class Hall:
    """A site whose agents use one door."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.door = PostgresDoor(site.pool, DoorKind.AGENTS, "door-1")

    async def active(self, count: int) -> list[Machine]:
        machines = [await self.site.active() for _ in range(count)]
        await self.look()  # until now, nothing depended on doors
        await self.hear(*machines)
        await self.look()
        return machines

    async def hear(self, *machines: Machine) -> None:
        """The agents of these machines report by the door."""
        if machines:
            keys = [machine.key for machine in machines]
            verdicts = await self.site.conn.fetchval(_HEAR, keys, uuid5(NAMESPACE_OID, "boot"))
            assert verdicts == ["taken"] * len(machines)
            await self.door.beat()

    async def look(self) -> None:
        """A controller pulses, and the loop settles."""
        await PostgresPulse(self.site.pool).beat()
        await self.site.settled()

    async def pass_time(self, by: timedelta, *heard: Machine, door: bool = True) -> None:
        """Let time pass in steps, as controllers see it. Meanwhile these agents report, and the door pulses."""
        step = EVERY if heard or not door else 5 * SECOND
        left = by
        while left > timedelta(0):
            await self.site.pass_time(min(step, left), doors=bool(heard))
            left -= step
            await self.hear(*heard)
            if door:
                await self.door.beat()
            await self.look()

    async def statuses(self, machines: list[Machine]) -> set[str]:
        await self.site.settled()
        return {(await machine.state())[0] for machine in machines}


@pytest.fixture
def hall(site: Site) -> Hall:
    return Hall(site)


async def outages(site: Site) -> list[tuple[Any, ...]]:
    """The gaps of doors and of agents, and how many minutes each lasted."""
    rows = await site.conn.fetch(
        "SELECT pulse, extract(epoch FROM upper(t) - lower(t))::integer / 60 FROM farrier.outages, unnest(times) t"
        " WHERE pulse <> 'controllers' ORDER BY 1, t"
    )
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("count", [1, REACH_EXPECTED])
async def test_no_node_goes_offline_while_all_doors_are_down(hall: Hall, count: int) -> None:
    machines = await hall.active(count)
    await hall.pass_time(TEN_MINUTES, door=False)
    assert await hall.statuses(machines) == {"active"}


async def test_when_the_doors_are_back_silence_counts_from_then(hall: Hall) -> None:
    alive, dead = await hall.active(2)
    await hall.pass_time(TEN_MINUTES, door=False)
    await hall.pass_time(OFFLINE_AFTER - MINUTE, alive)
    assert await hall.statuses([alive, dead]) == {"active"}
    await hall.pass_time(MINUTE + EVERY, alive)
    assert [await hall.statuses([each]) for each in (alive, dead)] == [{"active"}, {"offline"}]


async def test_a_node_that_was_silent_before_the_doors_died_keeps_the_rest_of_its_time(hall: Hall) -> None:
    alive, dead = await hall.active(2)
    await hall.pass_time(OFFLINE_AFTER - MINUTE, alive)
    await hall.pass_time(TEN_MINUTES, door=False)
    assert await hall.statuses([alive, dead]) == {"active"}
    await hall.pass_time(MINUTE + PULSE_LOST, alive)
    assert [await hall.statuses([each]) for each in (alive, dead)] == [{"active"}, {"offline"}]


async def test_doors_that_pulse_but_reach_none_of_five_agents_count_as_dead(hall: Hall) -> None:
    machines = await hall.active(REACH_EXPECTED)
    await hall.pass_time(TEN_MINUTES)
    assert await hall.statuses(machines) == {"active"}
    assert await outages(hall.site) == [("agents", 10)]
    await hall.hear(machines[0])
    await hall.pass_time(OFFLINE_AFTER + SECOND * 5, machines[0])
    assert await hall.statuses(machines[:1]) == {"active"}
    assert await hall.statuses(machines[1:]) == {"offline"}


async def test_a_login_of_doors_cannot_make_dead_doors_alive(hall: Hall) -> None:
    """It can list any door, and say that the door reaches agents; only heartbeats count."""
    machines = await hall.active(REACH_EXPECTED)
    for _ in range(OFFLINE_AFTER // (5 * SECOND) + 2):
        hall.door.reached()
        await hall.pass_time(5 * SECOND)
    assert await hall.statuses(machines) == {"active"}
    assert [pulse for pulse, _ in await outages(hall.site)] == ["agents"]


async def test_doors_that_reach_one_agent_are_alive(hall: Hall) -> None:
    alive, *dead = await hall.active(REACH_EXPECTED + 1)
    await hall.pass_time(OFFLINE_AFTER + 10 * SECOND, alive)
    assert await hall.statuses([alive]) == {"active"}
    assert await hall.statuses(dead) == {"offline"}
    assert await outages(hall.site) == []


async def test_doors_that_reach_none_of_four_agents_are_alive(hall: Hall) -> None:
    machines = await hall.active(REACH_EXPECTED - 1)
    await hall.pass_time(OFFLINE_AFTER + EVERY)
    assert await hall.statuses(machines) == {"offline"}
    assert await outages(hall.site) == []


async def test_silence_counts_from_the_moment_at_which_too_few_agents_are_expected(hall: Hall) -> None:
    machines = await hall.active(REACH_EXPECTED)
    await hall.pass_time(TEN_MINUTES)
    await machines[0].asked("quarantine", key="repair", reason="a fan")
    await hall.look()
    assert await hall.statuses(machines[1:]) == {"active"}
    await hall.pass_time(OFFLINE_AFTER - MINUTE)
    assert await hall.statuses(machines[1:]) == {"active"}
    await hall.pass_time(MINUTE + EVERY)
    assert await hall.statuses(machines[1:]) == {"offline"}


async def test_agents_by_sql_are_judged_as_if_there_were_no_doors(hall: Hall) -> None:
    by_door = await hall.active(REACH_EXPECTED)
    by_sql = await hall.site.active()
    await hall.pass_time(OFFLINE_AFTER - MINUTE, door=False)
    assert await hall.statuses([by_sql]) == {"active"}
    await hall.pass_time(MINUTE + EVERY, door=False)
    assert await hall.statuses([by_sql]) == {"offline"}
    assert await hall.statuses(by_door) == {"active"}


async def test_an_agent_that_changes_to_sql_is_judged_as_by_sql(hall: Hall) -> None:
    (machine,) = await hall.active(1)
    await machine.beat()
    await hall.pass_time(OFFLINE_AFTER + 5 * SECOND, door=False)
    assert await hall.statuses([machine]) == {"offline"}


@pytest.mark.parametrize("with_door", [True, False])
async def test_a_controller_that_starts_while_the_doors_are_dead_takes_no_node_out_of_service(
    db: pg.Database, with_door: bool
) -> None:
    async with sites.opened(db, crash=True) as site:
        machines = await Hall(site).active(REACH_EXPECTED)
        await Hall(site).pass_time(5 * MINUTE, door=with_door)
    await db.advance(5 * MINUTE, pulses=False)
    async with sites.opened(db) as site:
        later = Hall(site)
        for machine in machines:
            machine.site = site
        assert await later.statuses(machines) == {"active"}
        await later.pass_time(TEN_MINUTES, door=with_door)
        assert await later.statuses(machines) == {"active"}
        await later.hear(machines[0])
        await later.pass_time(OFFLINE_AFTER + 5 * SECOND, machines[0])
        assert await later.statuses(machines[1:]) == {"offline"}


async def test_dead_doors_return_no_silent_node_to_service(hall: Hall) -> None:
    alive, dead = await hall.active(2)
    await hall.pass_time(OFFLINE_AFTER + EVERY, alive)
    assert await hall.statuses([dead]) == {"offline"}
    await hall.pass_time(TEN_MINUTES, door=False)
    assert await hall.statuses([dead]) == {"offline"}
    assert await hall.statuses([alive]) == {"active"}


async def test_flapping_doors_keep_no_dead_node_in_service(hall: Hall) -> None:
    alive, dead = await hall.active(2)
    for _ in range(3):
        await hall.pass_time(OFFLINE_AFTER / 3, alive)
        await hall.pass_time(MINUTE, door=False)
        await hall.hear(alive)
    await hall.pass_time(EVERY, alive)
    assert [await hall.statuses([each]) for each in (alive, dead)] == [{"active"}, {"offline"}]


async def test_a_short_offline_after_is_longer_than_the_time_until_dead_doors_are_noticed(hall: Hall) -> None:
    offline_after, passed = MINUTE / 2, 15 * SECOND
    assert offline_after / 3 < passed < REACH_LOST
    await hall.site.conn.execute("UPDATE farrier.settings SET offline_after = $1", offline_after)
    await hall.active(REACH_EXPECTED)
    await hall.pass_time(passed)
    assert await outages(hall.site) == [("agents", 0)]


async def test_a_lease_that_could_not_be_renewed_without_doors_lasts_longer(hall: Hall) -> None:
    (machine,) = await hall.active(1)
    await machine.asked("drain")
    lease = await machine.claim(TaskType.DRAIN)
    assert lease is not None
    await hall.pass_time(TEN_MINUTES, door=False)
    await machine.end(lease)
    assert [(task["status"], task["attempt"]) for task in await machine.tasks(TaskType.DRAIN)] == [("succeeded", 1)]


async def test_an_onboarding_that_waits_for_an_agent_has_the_rest_of_its_time_after_dead_doors(hall: Hall) -> None:
    limit = stage_deadline(Layer.ONBOARDING, OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT, overrides={})
    other, *_ = await hall.active(1)
    machine = await (await hall.site.register()).asked("onboard", mode="manual")
    await hall.site.pass_time(2 * limit, doors=False)
    await hall.look()
    assert (await machine.state())[1] == "running"
    await hall.hear(other)
    await hall.look()
    await hall.site.pass_time(limit + SECOND)
    await hall.look()
    assert (await machine.state())[1] == "failed_retryable"


async def test_a_pulse_that_nobody_needs_has_no_gaps(hall: Hall) -> None:
    """A site without doors, or one that no longer uses them."""
    machine = await hall.site.active()
    await hall.pass_time(MINUTE, door=False)
    await hall.hear(machine)
    await hall.look()
    assert await outages(hall.site) == []


async def test_a_clock_that_was_set_back_leaves_no_gap_in_the_future(hall: Hall) -> None:
    (machine,) = await hall.active(1)
    await hall.pass_time(TEN_MINUTES, door=False)
    await hall.site.db.advance(-timedelta(hours=1))
    await hall.look()
    while (await PostgresPulse(hall.site.pool).mend()).more:
        pass
    assert await outages(hall.site) == []
    await hall.pass_time(TEN_MINUTES, door=False)
    assert await hall.statuses([machine]) == {"active"}
    assert {pulse for pulse, _ in await outages(hall.site)} == {"doors"}


async def test_a_door_that_crashed_disappears_after_an_hour_even_beside_one_that_is_locked(hall: Hall) -> None:
    await hall.door.beat()
    held = PostgresDoor(hall.site.pool, DoorKind.PAGES, "held")
    await held.beat()
    async with hall.site.db.connect() as other, other.transaction():
        await other.execute("SELECT FROM farrier.doors WHERE id = $1 FOR UPDATE", held.id)
        await hall.site.pass_time(timedelta(hours=1, seconds=1))
        await PostgresPulse(hall.site.pool).beat()
        names = [row["name"] for row in await hall.site.conn.fetch("SELECT name FROM farrier.doors")]
    assert names == ["held"]
