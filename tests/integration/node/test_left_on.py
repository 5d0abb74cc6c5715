"""A full decommission leaves no machine on that farrier can switch off, and says which machine stays on."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice import explanation
from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import Action
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, NotYet, PowerState
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import TaskType as T
from tests.support.fake_bmc import READING
from tests.support.site import MINUTE, SECOND, Machine, Site

TASKS = (T.RELEASE_ALLOCATIONS, T.DRAIN, T.CLEANUP_STORAGE, T.SCRUB_GPU, T.VALIDATE_CLEAN, T.UNINSTALL)
FULL: dict[str, Any] = {"mode": "full_decommission"}


async def in_service(site: Site) -> Machine:
    return await (await site.active()).asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")


async def cleaned(machine: Machine) -> Machine:
    for type_ in TASKS:
        await machine.finish(type_)
    return machine


async def test_the_machine_of_a_node_without_maas_is_switched_off_through_its_bmc(site: Site) -> None:
    machine = await (await in_service(site)).asked("decommission", **FULL)
    for type_ in TASKS[:-1]:
        await machine.finish(type_)
    assert site.bmc.powers == [], "its agent still has to uninstall itself"
    await machine.finish(T.UNINSTALL)
    assert (await machine.state())[0] == "deleted"
    assert (site.bmc.sent, site.bmc.power) == ([PowerRequest.OFF], PowerState.OFF)


async def test_the_node_stays_until_a_slow_machine_is_off(site: Site) -> None:
    machine = await (await in_service(site)).asked("decommission", **FULL)
    off = site.bmc.power_script

    def slow(_target: BmcTarget, _wanted: PowerRequest) -> BmcReading:
        raise NotYet(BmcFailure.TIMEOUT, "the system stays On", sent=True)

    site.bmc.power_script = slow
    await cleaned(machine)
    assert (await machine.state())[0] == "removing"
    site.bmc.power_script = off
    await site.wait(10 * SECOND)
    assert (await machine.state())[0] == "deleted"


async def test_another_machine_behind_the_bmc_is_not_switched_off(site: Site) -> None:
    machine = await (await in_service(site)).asked("decommission", **FULL)
    site.bmc.read_script = lambda _target: READING.__class__(
        power=PowerState.ON, system_path=READING.system_path, serial="SN-9", credential_version="v1"
    )
    await cleaned(machine)
    assert site.bmc.sent == []
    row = await machine.look()
    assert (row["failure_class"], row["status"]) == ("power_failed", "retired")


async def test_a_bmc_that_does_not_respond_keeps_the_node_until_it_responds_or_leave_on_is_added(site: Site) -> None:
    machine = await (await in_service(site)).asked("decommission", **FULL)
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    await cleaned(machine)
    assert (await machine.look())["failure_class"] == "power_failed"
    site.bmc.recover()
    await site.wait(10 * MINUTE)
    assert (await machine.state())[0] == "deleted"
    assert site.bmc.power is PowerState.OFF


@pytest.mark.parametrize("leave_on", [False, True])
async def test_a_bmc_that_cannot_be_used_needs_leave_on(site: Site, leave_on: bool) -> None:
    machine = await in_service(site)
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    await machine.asked("manage")
    answer = await machine.ask("decommission", **FULL, leave_on=leave_on)
    assert "would stay on" in str(answer.reason) or "the machine stays on" in str(answer.reason)
    assert "its BMC is enroll (no route)" in str(answer.reason)
    assert answer.status == ("accepted" if leave_on else "rejected")
    if leave_on:
        await cleaned(machine)
        assert (await machine.state())[0] == "deleted"


NO_WAY = "the machine would stay on: MAAS cannot switch it off, and the node has no BMC"
LEFT = "submit decommission with mode: full_decommission and leave_on: true if it may stay on"


async def test_a_machine_that_neither_maas_nor_a_bmc_can_switch_off_needs_leave_on(site: Site) -> None:
    machine = await site.active()
    answer = await machine.ask("decommission", **FULL)
    assert (answer.status, answer.reason) == ("rejected", f"decommission: {NO_WAY}; {LEFT}")
    assert (await machine.state())[0] == "active"
    answer = await machine.ask("decommission", **FULL, leave_on=True)
    assert answer.status == "accepted" and "the machine stays on" in str(answer.reason)
    await cleaned(machine)
    assert (await machine.state())[0] == "deleted"


async def test_a_bmc_that_is_taken_away_during_the_decommission_stops_it_until_leave_on_is_added(site: Site) -> None:
    machine = await (await in_service(site)).asked("decommission", **FULL)
    await machine.asked("clear_bmc")
    await cleaned(machine)
    row = await machine.look()
    assert (row["status"], row["failure_class"]) == ("retired", "power_failed")
    page = await PostgresQueries(site.pool).node(machine.name)
    said = explanation.explain(page.rows[0], page.now, Limits())
    recommended = Recommended(Action.DECOMMISSION, FULL | {"leave_on": True}, when="if the machine may stay on")
    assert recommended in said.recommended
    await machine.asked("decommission", **recommended.params)
    await site.wait(10 * MINUTE)
    assert (await machine.state())[0] == "deleted"


async def test_leave_on_needs_a_full_decommission(site: Site) -> None:
    answer = await (await site.active()).ask("decommission", mode="soft_reset", leave_on=True)
    assert answer.status == "rejected" and "leave_on needs mode full_decommission" in str(answer.reason)
