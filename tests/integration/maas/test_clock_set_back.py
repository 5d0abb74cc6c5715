"""The database's clock is set back while a change in MAAS is under way: no change that does harm is made twice."""

from __future__ import annotations

from datetime import timedelta

from farrier.io.connections.pulse import PostgresPulse
from tests.support import pg
from tests.support import site as sites
from tests.support.demanding import DEMANDING, ON_THE_WAY_IN, ONLY_ONCE, demanding_region, is_set_up_once
from tests.support.onboarded import enrolled, manageable, record, until_held
from tests.support.wire import Blow, EachOnce, Wire

BACK = timedelta(hours=2)


async def test_an_onboarding_survives_a_clock_that_is_set_back_in_each_change(db: pg.Database) -> None:
    wire = Wire(demanding_region(), strike := EachOnce(Blow.HELD_AFTER))
    async with sites.opened(db, region=wire, config=DEMANDING) as site, db.pool(1) as connections:
        pulse = PostgresPulse(connections)
        node = await manageable(site)
        await node.tell("onboard", mode="deploy")
        while await until_held(node, goal="wait_for_agent_enrollment"):
            await pulse.beat()
            await db.advance(-BACK)
            assert await pulse.beat() is not None
            while (await pulse.mend()).more:
                pass
            wire.let_go()
        assert {*strike.struck} == ON_THE_WAY_IN
        node = await enrolled(node)
        assert (await node.state())[:2] == ("active", "completed")
        is_set_up_once(await record(node))
        once = [op for op in ONLY_ONCE if op in ON_THE_WAY_IN]
        assert {op: wire.ops.count(op) for op in once} == dict.fromkeys(once, 1)
