"""Stage `power_off_maas_node`: a released machine is off afterwards, and no other machine is switched off."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.model.node.failures import FailureClass as F
from farrier.model.node.snapshot import Memo
from farrier.model.node.stages import DecommissionStage as D
from farrier.sim.maas import Broken, Fault, Nature, Status
from tests.support.decommissions import again, asked, fails, given, given_deployed, is_through, sent, skips, waits
from tests.support.stages import Stand

STAGE = D.POWER_OFF_MAAS_NODE
S = Status


RELEASED: dict[str, Any] = {"memo": Memo(released=True)}


async def test_a_machine_that_is_off_is_not_switched(stand: Stand) -> None:
    await given(stand, STAGE, S.READY, owner=None, power="off", **RELEASED)
    is_through(await stand.settle())
    assert sent(stand) == []


@pytest.mark.parametrize("power", ["on", "unknown", "error"])
@pytest.mark.parametrize("status", [S.READY, S.NEW, S.FAILED_COMMISSIONING, S.BROKEN], ids=lambda status: status.name)
async def test_a_released_machine_is_switched_off_once(stand: Stand, status: Status, power: str) -> None:
    machine = await given(stand, STAGE, status, owner=None, power=power, **RELEASED)
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    stand.observe()
    is_through(await stand.settle())
    is_through(await stand.settle())
    assert sent(stand) == ["power_off"]
    assert machine.power_state == "off"


async def test_a_slow_power_off_is_awaited_by_the_observation_without_requests_to_maas(slow: Stand) -> None:
    machine = await given(slow, STAGE, S.READY, owner=None, **RELEASED)
    await slow.settle()
    slow.observe()
    before = asked(slow)
    for _ in range(3):
        waits(await slow.settle(), "report the machine as off")
    assert asked(slow) == before
    slow.pass_time(timedelta(minutes=2))
    slow.observe()
    is_through(await slow.settle())
    assert sent(slow) == ["power_off"] and machine.power_state == "off"


async def test_another_attempt_requests_the_power_off_again(slow: Stand) -> None:
    machine = await given(slow, STAGE, S.READY, owner=None, **RELEASED)
    await slow.settle()
    again(slow)
    machine.power_state = "on"
    await slow.settle()
    assert sent(slow) == ["power_off", "power_off"]


@pytest.mark.parametrize("power_type", ["", "manual"])
async def test_a_machine_whose_power_maas_cannot_switch_skips_the_stage(stand: Stand, power_type: str) -> None:
    machine = await given(stand, STAGE, S.READY, owner=None, power="unknown", **RELEASED)
    machine.power_type = power_type
    skips(await stand.settle(), "cannot switch", power_type or "(none)")
    assert sent(stand) == []


async def test_the_next_attempt_retries_after_a_bmc_did_not_respond(stand: Stand) -> None:
    machine = await given(stand, STAGE, S.READY, owner=None, **RELEASED)
    stand.region.natures[machine.system_id] = Nature(bmc_error="no route")
    fails(await stand.settle(), F.POWER_FAILED, "no route")
    stand.region.natures.clear()
    again(stand)
    await stand.settle()
    stand.observe()
    is_through(await stand.settle())


@pytest.mark.parametrize(
    "status",
    [S.DEPLOYED, S.DEPLOYING, S.ALLOCATED, S.COMMISSIONING, S.TESTING, S.RESCUE_MODE, S.FAILED_DEPLOYMENT],
    ids=lambda status: status.name,
)
async def test_a_machine_that_is_used_again_is_not_switched_off(stand: Stand, status: Status) -> None:
    machine = await given(stand, STAGE, status, **RELEASED)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, status.label)
    assert sent(stand) == [] and machine.power_state == "on"


async def test_the_stage_waits_while_the_machine_is_being_released(stand: Stand) -> None:
    await given(stand, STAGE, S.RELEASING, **RELEASED)
    waits(await stand.settle(), "Releasing")
    assert sent(stand) == []


async def test_a_machine_that_was_deleted_from_maas_skips_the_stage(stand: Stand) -> None:
    stand.region.forget(await given_deployed(stand, STAGE, **RELEASED))
    skips(await stand.settle(), "no longer in MAAS")


async def test_a_machine_whose_agent_still_has_to_uninstall_stays_on(stand: Stand) -> None:
    """MAAS did not install the machine, so it was not released. If it were off, its agent could never uninstall."""
    await given(stand, STAGE, S.NEW, owner=None)
    skips(await stand.settle(), "still has to uninstall")
    assert sent(stand) == []


async def test_a_power_off_whose_response_was_lost_is_recognised(stand: Stand) -> None:
    await given(stand, STAGE, S.READY, owner=None, **RELEASED)
    stand.region.faults.add(Fault(op="power_off", broken=Broken.DROP))
    waits(await stand.settle(), "unreachable")
    is_through(await stand.settle())
    assert sent(stand) == ["power_off"]
