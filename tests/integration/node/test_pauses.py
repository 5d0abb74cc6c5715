"""A paused node keeps intents pending, except those that end something, and is still observed."""

from __future__ import annotations

import pytest

from farrier.model.node import TaskType
from tests.support.site import MINUTE, Site

ACCEPTED = "accepted"


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


async def test_intents_that_a_pause_held_are_answered_when_the_node_is_deleted(site: Site) -> None:
    machine = await (await site.with_bmc()).asked("pause", reason="fire drill")
    held = [
        await machine.tell("set_power", power="off"),
        await machine.tell("set_bmc", address="https://10.0.0.77"),
    ]
    await machine.asked("delete")
    assert (await machine.look())["status"] == "deleted"
    answers = [await site.answer(id_) for id_ in held]
    assert [answer.status for answer in answers] == ["rejected"] * 2
    assert all("this node is deleted" in (answer.reason or "") for answer in answers)


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
