"""The process dies in the middle of a change, for each change, before or after the region has made it. Another process
takes over when the lease has expired, and brings the node to its goal without making a change twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.sim.maas import Status
from tests.support import pg
from tests.support import site as sites
from tests.support.demanding import DEMANDING, ON_THE_WAY_IN, ONLY_ONCE, demanding_region, is_set_up_once
from tests.support.onboarded import active, begun, cleaned, enrolled, manageable, record, until, until_held
from tests.support.site import SECOND, Machine, Site
from tests.support.wire import Blow, EachOnce, Wire

# Another process takes the shards over after this time of the database's clock.
LEASE = 16 * SECOND
WHEN = pytest.mark.parametrize(
    "blow",
    [
        pytest.param(Blow.HELD, id="before it is made", marks=pytest.mark.full),
        pytest.param(Blow.HELD_AFTER, id="after it was made"),
    ],
)

Act = Callable[[Machine], Awaitable[object]]


class Mortals:
    """One process after another on the same database and region; each dies in the first change that is held."""

    def __init__(self, db: pg.Database, wire: Wire) -> None:
        self._db = db
        self._wire = wire
        self.deaths = 0

    async def one(self, node: Machine | None, act: Act | None = None, *, goal: str) -> tuple[Machine, bool]:
        """Run the next process, which begins with `act`; return the node (a new one if None) and whether it died."""
        async with sites.opened(self._db, region=self._wire, config=DEMANDING, crash=True) as site:
            found = await manageable(site) if node is None else at(site, node)
            if act is not None:
                await act(found)
            died = await until_held(found, goal=goal)
        if died:
            self.deaths += 1
            self._wire.let_go()
            self._wire.region.advance(LEASE)
            await self._db.advance(LEASE)
        return found, died

    async def all(self, node: Machine | None, act: Act, *, goal: str) -> Machine:
        """Run processes until one does not die."""
        node, died = await self.one(node, act, goal=goal)
        while died:
            node, died = await self.one(node, goal=goal)
        return node


def at(site: Site, node: Machine) -> Machine:
    """The same node, for calls through this site's database connection."""
    same = Machine(site, node.name, node.id)
    same.key = node.key
    return same


async def asks_onboarding(node: Machine) -> None:
    await node.tell("onboard", mode="deploy")


async def asks_cancel(node: Machine) -> None:
    await node.tell("cancel")


async def asks_removal(node: Machine) -> None:
    """Ask for the removal; the agent has ended all its tasks before the machine is released."""
    await node.beat()
    await node.asked("decommission", mode="full_decommission", force=True, reason="the lock is an old one")
    await cleaned(node)


@WHEN
async def test_an_onboarding_survives_a_death_in_each_change(db: pg.Database, blow: Blow) -> None:
    wire = Wire(demanding_region(), strike := EachOnce(blow))
    mortals = Mortals(db, wire)
    node = await mortals.all(None, asks_onboarding, goal="wait_for_agent_enrollment")
    assert {*strike.struck} == ON_THE_WAY_IN and mortals.deaths == len(ON_THE_WAY_IN)
    async with sites.opened(db, region=wire, config=DEMANDING) as site:
        node = await enrolled(at(site, node))
        assert (await node.state())[:2] == ("active", "completed")
        machine = await record(node)
        assert [*wire.region.machines] == [machine.system_id]
        is_set_up_once(machine)
        started = [event for event in wire.region.events.of(machine.system_id) if event.type == START]
        assert [event.description.rpartition(" ")[2] for event in started] == ["1"]
        again = 1 if blow.is_done_first else 2
        on_the_way = [op for op in ONLY_ONCE if op in ON_THE_WAY_IN]
        assert {op: wire.ops.count(op) for op in on_the_way} == dict.fromkeys(on_the_way, again)
        assert await node.path("onboarding") == ["pending", "running", "completed"], "a crash counts as no failure"


@WHEN
async def test_an_undo_survives_a_death_in_each_change(db: pg.Database, blow: Blow) -> None:
    wire = Wire(demanding_region())
    async with sites.opened(db, region=wire, config=DEMANDING) as site:
        node = await begun(await manageable(site))
        await until(node, "wait_for_deployed")
        machine = await record(node)
    wire.strike = strike = EachOnce(blow)
    node = await Mortals(db, wire).all(node, asks_cancel, goal="cancelled")
    assert strike.struck == ["abort", "release"]
    assert (machine.status, machine.owner) == (Status.READY, None)


@WHEN
async def test_a_decommission_survives_a_death_in_each_change(db: pg.Database, blow: Blow) -> None:
    wire = Wire(demanding_region())
    async with sites.opened(db, region=wire, config=DEMANDING) as site:
        node = await active(site)
        (await record(node)).locked = True
    wire.strike = strike = EachOnce(blow)
    await Mortals(db, wire).all(node, asks_removal, goal="deleted")
    assert strike.struck == ["unlock", "release", "delete"]
    assert not wire.region.machines
