"""Stage `release_maas_node`: afterwards the machine has no owner, and its disks are erased as the site configures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.config.sites import Erase, ReleaseSite
from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.handlers.node.decommission.release_maas_node import wanted
from farrier.handlers.node.workflow.stages import continued
from farrier.model.maas.changes import Release
from farrier.model.machine.bmc import PowerState
from farrier.model.node.failures import FAILURES
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import DecommissionMode, Management
from farrier.model.node.snapshot import Agent, Bmc, Node
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import ForgetAgent, RevokeBootstrap
from farrier.sim.maas import Broken, EraseFate, Fault, Nature, Status
from farrier.sim.maas.records import Machine
from tests.support.decommissions import (
    FORCED,
    LATER,
    again,
    asked,
    fails,
    given,
    given_deployed,
    is_through,
    sent,
    skips,
    waits,
)
from tests.support.nodes import MARK
from tests.support.stages import SECOND, Stand

STAGE = D.RELEASE_MAAS_NODE
# Longer than the deadline of the stage.
DEADLINE = timedelta(hours=2)
S = Status
NOT_NOW = b"Machine cannot be released in its current state ('Testing')."
RELEASABLE = (S.DEPLOYED, S.ALLOCATED, S.RESERVED, S.BROKEN, S.FAILED_DEPLOYMENT, S.RELEASING_FAILED)


def is_released(stand: Stand) -> None:
    assert stand.node.workflow is not None and stand.node.workflow.memo.released
    assert {ForgetAgent(), RevokeBootstrap()} <= set(stand.writes)


def is_not_released(stand: Stand) -> None:
    assert stand.node.workflow is not None and not stand.node.workflow.memo.released
    assert ForgetAgent() not in stand.writes


# --- the release


@pytest.mark.parametrize("status", [*RELEASABLE, S.FAILED_DISK_ERASING], ids=lambda status: status.name)
async def test_a_machine_that_farriers_user_holds_is_released_once(stand: Stand, status: Status) -> None:
    machine = await given(stand, STAGE, status)
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    is_not_released(stand)
    stand.observe()
    is_through(await stand.settle())
    is_released(stand)
    assert machine.status is S.READY and machine.owner is None
    assert sent(stand) == ["release"]
    is_through(await stand.settle())
    assert sent(stand) == ["release"], "the machine is not released again"


async def test_the_release_is_recognised_by_its_comment(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    await stand.settle()
    events = await stand.world.client.events(system_id=machine.system_id)
    assert [event.type for event in events if event.carries(f"farrier decommission 12 {MARK}: release")] == [
        "User releasing node"
    ]


@pytest.mark.parametrize("status", [S.READY, S.NEW, S.FAILED_COMMISSIONING, S.FAILED_TESTING], ids=lambda s: s.name)
async def test_a_machine_without_an_owner_counts_as_released(stand: Stand, status: Status) -> None:
    await given(stand, STAGE, status, owner=None, power="off")
    is_through(await stand.settle())
    is_released(stand)
    assert sent(stand) == []


async def test_a_running_machine_that_maas_did_not_install_keeps_its_agent(stand: Stand) -> None:
    await given(stand, STAGE, S.NEW, owner=None, power="on")
    skips(await stand.settle(), "not deployed")
    is_not_released(stand)


async def test_a_machine_whose_commissioning_had_failed_is_new_after_the_release(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    machine.script_sets.clear()
    await stand.settle()
    assert machine.status is S.NEW
    machine.power_state = "on"  # switched on after the release, which still counts
    stand.observe()
    is_through(await stand.settle())
    is_released(stand)


@pytest.mark.parametrize(
    ("erase", "flags"),
    [
        (Erase.NONE, {}),
        (Erase.QUICK, {"erase": True, "quick_erase": True}),
        (Erase.SECURE, {"erase": True, "secure_erase": True}),
        (Erase.FULL, {"erase": True}),
    ],
)
async def test_disks_are_erased_as_the_site_configures(stand: Stand, erase: Erase, flags: Mapping[str, bool]) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=erase))
    assert wanted(stand.node, stand.policy) == Release(comment=f"farrier decommission 12 {MARK}: release", **flags)
    await stand.settle()
    assert machine.status is (S.DISK_ERASING if flags else S.READY)


# --- waiting


async def test_erasing_is_awaited_by_the_observation_without_requests_to_maas(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.QUICK))
    await stand.settle()
    stand.observe()
    before = asked(stand)
    for _ in range(3):
        waits(await stand.settle(), "Disk erasing")
    assert asked(stand) == before
    stand.pass_time(LATER)
    stand.observe()
    is_through(await stand.settle())
    is_released(stand)
    assert machine.status is S.READY and sent(stand) == ["release"]


async def test_an_erasure_whose_power_action_was_lost_is_aborted_and_requested_again(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.QUICK))
    machine.power_state = "off"
    stand.region.natures[machine.system_id] = Nature(never_on=True)
    await stand.settle()
    stand.pass_time(timedelta(minutes=6))
    bmc = Bmc(power=PowerState.OFF, power_at=stand.now)
    stand.node = with_fields(stand.node, management=Management.MANAGEABLE, bmc=bmc)
    stand.observe()
    stand.region.natures[machine.system_id] = Nature()
    await stand.settle()
    assert sent(stand) == ["release", "abort"]
    stand.observe()
    await stand.settle()
    assert sent(stand) == ["release", "abort", "release"] and machine.status is S.DISK_ERASING


@pytest.mark.parametrize(("heard", "is_aborted"), [(timedelta(minutes=6), True), (timedelta(minutes=1), False)])
async def test_an_erasure_of_a_machine_whose_agent_still_runs_is_aborted_and_requested_again(
    stand: Stand, heard: timedelta, is_aborted: bool
) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.QUICK))
    stand.region.natures[machine.system_id] = Nature(never_on=True)
    await stand.settle()
    agent = Agent(enrolled_at=stand.now, last_heartbeat_at=stand.now + heard)
    stand.pass_time(timedelta(minutes=6))
    stand.node = with_fields(stand.node, agent=agent)
    stand.observe()
    stand.region.natures[machine.system_id] = Nature()
    await stand.settle()
    assert machine.power_state == ("off" if is_aborted else "on"), "MAAS did not restart it before"
    stand.observe()
    await stand.settle()
    assert sent(stand) == ["release", "abort", "release"][: 3 if is_aborted else 1]
    assert machine.status is S.DISK_ERASING


def after_the_back_off(node: Node) -> Node:
    return with_workflow(node, attempt=2, failure_class=F.TIMEOUT)


@pytest.mark.parametrize("begin", [after_the_back_off, continued])
async def test_an_erasure_that_does_not_end_is_aborted_in_the_next_attempt_and_requested_again(
    stand: Stand, begin: Callable[[Node], Node]
) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.FULL))
    stand.region.natures[machine.system_id] = Nature(erase=EraseFate.HANGS)
    await stand.settle()
    stand.observe()
    stand.pass_time(DEADLINE)
    stand.observe()
    waits(await stand.settle(), "Disk erasing")
    assert sent(stand) == ["release"], "one attempt does not repeat its own request"
    stand.node = begin(stand.node)
    again(stand)
    stand.observe()
    await stand.settle()
    assert sent(stand) == ["release", "abort"]
    stand.region.natures[machine.system_id] = Nature()
    stand.pass_time(SECOND)
    stand.observe()
    await stand.settle()
    assert sent(stand) == ["release", "abort", "release"]
    stand.pass_time(LATER)
    stand.observe()
    is_through(await stand.settle())
    assert machine.status is S.READY


async def test_an_erasure_goes_on_within_a_raised_limit(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.FULL))
    stand.region.natures[machine.system_id] = Nature(erase=EraseFate.HANGS)
    await stand.settle()
    stand.observe()
    stand.pass_time(DEADLINE)
    stand.node = after_the_back_off(stand.node)
    again(stand)
    raised = {"decommission.running.release_maas_node": timedelta(hours=8)}
    stand.policy = replace(stand.policy, sla=raised)
    stand.observe()
    waits(await stand.settle(), "Disk erasing")
    assert sent(stand) == ["release"]


async def test_the_stage_waits_for_an_erasure_that_the_region_adds(stand: Stand) -> None:
    stand.region.site.erases_on_release = True
    await given_deployed(stand, STAGE)
    await stand.settle()
    stand.observe()
    waits(await stand.settle(), "Disk erasing")
    stand.pass_time(LATER)
    stand.observe()
    is_through(await stand.settle())
    assert sent(stand) == ["release"]


@pytest.mark.parametrize("status", [S.RELEASING, S.DISK_ERASING], ids=lambda status: status.name)
async def test_the_stage_waits_for_a_release_that_another_user_requested(stand: Stand, status: Status) -> None:
    await given(stand, STAGE, status)
    waits(await stand.settle(), status.label)
    assert sent(stand) == []


async def test_no_request_is_sent_before_the_machine_is_read_after_the_release(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.observe()  # a reading from before the release
    stand.pass_time(SECOND)
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    before = asked(stand)
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    assert asked(stand) == before


# --- operations that are aborted before the release


@pytest.mark.parametrize(
    ("status", "then"),
    [
        (S.DEPLOYING, ["abort", "release"]),
        (S.COMMISSIONING, ["abort"]),
        (S.TESTING, ["abort"]),
    ],
    ids=lambda value: value.name if isinstance(value, Status) else "",
)
async def test_an_operation_in_progress_is_aborted_before_the_release(
    stand: Stand, status: Status, then: list[str]
) -> None:
    machine = await given(stand, STAGE, status)
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    assert sent(stand) == ["abort"]
    stand.observe()
    settled = await stand.settle()
    if "release" in then:
        stand.observe()
        settled = await stand.settle()
    is_through(settled)
    is_released(stand)
    assert sent(stand) == then
    assert machine.status in (S.READY, S.NEW)


async def test_an_operation_that_does_not_end_at_once_is_aborted_once_per_attempt(stand: Stand) -> None:
    machine = await given(stand, STAGE, S.DEPLOYING)
    await stand.settle()
    put_back(machine, S.DEPLOYING)
    stand.observe()
    before = asked(stand)
    waits(await stand.settle(), "abort")
    assert asked(stand) == before and sent(stand) == ["abort"]
    stand.observe(status=S.ALLOCATED.value)  # a state in between
    waits(await stand.settle(), "abort")
    assert sent(stand) == ["abort"]
    again(stand)
    await stand.settle()
    assert sent(stand) == ["abort", "abort"], "the next attempt may send the request again"


@pytest.mark.parametrize("status", [S.DEPLOYED, S.DEPLOYING], ids=lambda status: status.name)
async def test_a_locked_machine_is_not_changed_without_force(stand: Stand, status: Status) -> None:
    machine = await given(stand, STAGE, status)
    machine.locked = True
    fails(await stand.settle(), F.UPSTREAM_REFUSED, "locked", "force")
    assert sent(stand) == [] and machine.locked


async def test_force_unlocks_a_locked_machine_before_the_release(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE, options=FORCED)
    machine.locked = True
    await stand.settle()
    stand.observe()
    is_through(await stand.settle())
    assert sent(stand) == ["unlock", "release"]


# --- failures


def put_back(machine: Machine, status: Status) -> None:
    machine.status = status


@pytest.mark.parametrize("status", [S.RELEASING_FAILED, S.FAILED_DISK_ERASING, S.DEPLOYED], ids=lambda s: s.name)
async def test_a_failed_release_is_requested_again_only_in_the_next_attempt(stand: Stand, status: Status) -> None:
    machine = await given_deployed(stand, STAGE)
    await stand.settle()
    put_back(machine, status)
    stand.observe()
    fails(await stand.settle(), F.UPSTREAM_ERROR, status.label)
    is_not_released(stand)
    assert sent(stand) == ["release"]
    again(stand)
    await stand.settle()
    stand.observe()
    is_through(await stand.settle())
    assert sent(stand) == ["release", "release"]


async def test_an_attempt_after_a_failed_erasure_erases_again(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.SECURE))
    stand.region.natures[machine.system_id] = Nature(erase=EraseFate.FAILS)
    await stand.settle()
    stand.pass_time(LATER)
    stand.observe()
    fails(await stand.settle(), F.UPSTREAM_ERROR, "Failed to erase disks.")
    stand.region.natures.clear()
    again(stand)
    await stand.settle()
    assert machine.status is S.DISK_ERASING


async def test_a_bmc_that_does_not_respond_leaves_the_machine_deployed(stand: Stand) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.region.natures[machine.system_id] = Nature(bmc_error="no route")
    fails(await stand.settle(), F.POWER_FAILED, "no route")
    is_not_released(stand)
    assert machine.status is S.DEPLOYED


async def test_an_erasure_without_a_bmc_reports_the_bmc_and_runs_after_the_bmc_is_back(stand: Stand) -> None:
    """The region responds 409 and leaves the machine in Failed disk erasing; a further request gets 500 and changes
    nothing."""
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=Erase.SECURE))
    stand.region.natures[machine.system_id] = Nature(bmc_error="no route")
    for expected in ("409", "500"):
        fails(await stand.settle(), F.POWER_FAILED, expected, "through its BMC")
        is_not_released(stand)
        assert machine.status is S.FAILED_DISK_ERASING
        stand.observe()
        again(stand)
    assert FAILURES[F.POWER_FAILED].retryable and "BMC" in FAILURES[F.POWER_FAILED].action
    stand.region.natures.clear()
    waits(await stand.settle(), "until farrier has read the machine in MAAS")
    assert machine.status is S.DISK_ERASING
    stand.pass_time(LATER)
    stand.observe()
    is_through(await stand.settle())
    is_released(stand)


async def test_a_machine_whose_state_changed_since_it_was_read_is_read_again(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.region.faults.add(Fault(op="release", status=409, body=NOT_NOW, content_type="text/plain"))
    waits(await stand.settle(), "conflict")
    await stand.settle()
    stand.observe()
    is_through(await stand.settle())


@pytest.mark.parametrize(
    "status",
    [S.RESCUE_MODE, S.ENTERING_RESCUE_MODE, S.EXITING_RESCUE_MODE, S.FAILED_TO_ENTER_RESCUE_MODE],
    ids=lambda status: status.name,
)
async def test_a_machine_in_rescue_mode_is_not_released(stand: Stand, status: Status) -> None:
    await given(stand, STAGE, status)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, status.label)
    assert sent(stand) == []


# --- machines that are absent


async def test_a_machine_that_was_deleted_does_not_stop_a_full_decommission(stand: Stand) -> None:
    stand.region.forget(await given_deployed(stand, STAGE))
    skips(await stand.settle(), "no longer in MAAS")
    is_not_released(stand)  # MAAS does not switch off a machine that it deletes


async def test_a_machine_that_was_deleted_fails_a_reimage(stand: Stand) -> None:
    stand.region.forget(await given_deployed(stand, STAGE, mode=DecommissionMode.REIMAGE))
    fails(await stand.settle(), F.MACHINE_DELETED_UPSTREAM)


# --- lost responses


@pytest.mark.parametrize("erase", [Erase.NONE, Erase.QUICK])
async def test_a_release_whose_response_was_lost_is_recognised(stand: Stand, erase: Erase) -> None:
    machine = await given_deployed(stand, STAGE)
    stand.use(release=ReleaseSite(erase=erase))
    stand.region.faults.add(Fault(op="release", broken=Broken.DROP))
    waits(await stand.settle(), "unreachable")
    await stand.settle()
    stand.pass_time(LATER)
    stand.observe()
    is_through(await stand.settle())
    is_released(stand)
    assert sent(stand) == ["release"]
    assert machine.status is S.READY


@pytest.mark.parametrize("op", ["abort", "unlock"])
async def test_an_abort_or_unlock_whose_response_was_lost_is_not_repeated(stand: Stand, op: str) -> None:
    machine = await given(stand, STAGE, S.DEPLOYING, options=FORCED)
    machine.locked = op == "unlock"
    stand.region.faults.add(Fault(op=op, broken=Broken.DROP))
    for _ in range(5):
        await stand.settle()
        stand.observe()
    is_through(await stand.settle())
    assert sent(stand).count(op) == 1 and sent(stand).count("release") == 1
