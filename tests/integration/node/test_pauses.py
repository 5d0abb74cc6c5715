"""A paused node keeps intents pending, except those that end something, and is still observed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import PowerState
from farrier.model.node.snapshot import TaskType
from tests.support import pg
from tests.support import site as sites
from tests.support.site import MINUTE, Site

ACCEPTED = "accepted"
LEASE = timedelta(seconds=15)
PAUSE_ALL = """
    INSERT INTO farrier.intents (node, action, params, api_version)
    SELECT name, 'pause', '{"reason": "restored from a backup"}', 2 FROM farrier.nodes
"""


async def test_a_pause_holds_intents_until_it_ends(site: Site) -> None:
    machine = await (await site.active()).asked("pause", reason="fire drill")
    held = [await machine.tell("drain") for _ in range(120)]
    await site.settled()
    assert (await site.answer(held[0])).status == "pending"
    await machine.asked("pause", reason="another")
    await machine.asked("unpause")
    statuses = [(await site.answer(id_)).status for id_ in held]
    assert statuses == [ACCEPTED] * 120
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.node_decommissions") == 1


@pytest.mark.parametrize(("action", "ends_as"), [("cancel", "enrolling"), ("delete", "deleted")])
async def test_a_pause_does_not_hold_cancel_and_delete(site: Site, action: str, ends_as: str) -> None:
    machine = await (await site.enrolled()).asked("pause", reason="fire drill")
    assert (await machine.ask(action)).status == ACCEPTED
    assert (await machine.look())["status"] == ends_as


async def test_a_paused_node_is_observed_but_nothing_is_done_to_it(site: Site) -> None:
    machine = await (await site.draining()).asked("pause", reason="fire drill")
    assert await machine.claim(TaskType.DRAIN) is None
    await machine.beat("xid-79")
    assert (await machine.state())[0] == "draining"
    other = await (await site.active()).asked("pause", reason="fire drill")
    await site.wait(4 * MINUTE)
    assert (await other.state())[0] == "offline"
    await machine.asked("unpause")
    assert await machine.claim(TaskType.DRAIN) is not None


@pytest.mark.parametrize("paused", [True, False])
async def test_a_pause_before_the_first_run_after_a_restore_leaves_the_machine_as_it_is(
    db: pg.Database, paused: bool
) -> None:
    async with sites.opened(db, crash=True) as site:
        await (await site.with_bmc()).asked("set_power", power="off", enforce=True)
    if paused:
        async with db.connect() as conn:
            await conn.execute(PAUSE_ALL)
    await db.advance(LEASE)
    async with sites.opened(db) as later:
        later.bmc.power = PowerState.ON  # as an operator switched it after the backup
        await later.settled()
        for _ in range(3):
            await later.wait(MINUTE)
        assert later.bmc.power is (PowerState.ON if paused else PowerState.OFF)


async def test_intents_that_wait_for_the_end_of_a_pause_come_before_the_work_that_it_held(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("set_power", power="off", enforce=True)
    await machine.asked("pause", reason="restored from a backup")
    site.bmc.power = PowerState.ON
    sent = len(site.bmc.sent)
    await site.wait(2 * MINUTE)
    correction = await machine.tell("set_power", power="on")
    await machine.asked("unpause")
    await site.wait(2 * MINUTE)
    assert (await site.answer(correction)).status == ACCEPTED
    assert PowerRequest.OFF not in site.bmc.sent[sent:]
