"""Limits of an undo: machines that it must not change, causes that stop it, and faults of the region."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.handlers.node.maas import region
from farrier.model.intents.actions import Action
from farrier.model.maas.changes import Deploy
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR, Broken, Fault, Nature, Status
from tests.support.machines import COMMENT
from tests.support.stages import Stand, stand
from tests.support.undoing import ASKED, AT_REST, changes, forget, machine_of, refused, standing

S = Status


# --- owners of machines


@pytest.mark.parametrize("status", [S.DEPLOYED, S.DEPLOYING, S.ALLOCATED, S.FAILED_DEPLOYMENT])
async def test_a_deployment_of_another_workflow_stops_the_undo(slow: Stand, status: Status) -> None:
    it = await standing(slow, O.WAIT_FOR_READY, status, id=99)  # the events have comments of another workflow
    await it.ask(Action.CANCEL)
    refused(it, "this workflow did not request that")
    assert changes(slow) == []


async def test_a_deployment_known_only_by_its_comment_is_undone(slow: Stand) -> None:
    """The deployment's number is committed before the request; the comment alone proves it, too."""
    it = await standing(slow, O.DEPLOY_VIA_MAAS, S.DEPLOYING)
    assert region.comment(slow.node, "deploy 1") == COMMENT
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(slow) == ["abort", "release"]


async def test_the_comment_of_the_last_deployment_decides_whether_it_is_undone(slow: Stand) -> None:
    it = await standing(slow, O.DEPLOY_VIA_MAAS, S.READY)
    for comment in (COMMENT, "by hand"):
        await deploy(slow, comment)
        if comment == COMMENT:
            slow.region.move(slow.region.machines[slow.node.maas_id or ""], S.READY)
    await it.ask(Action.CANCEL)
    refused(it, "this workflow did not request that")


async def deploy(slow: Stand, comment: str) -> None:
    assert slow.node.maas_id is not None
    machine = await slow.world.client.machine(slow.node.maas_id)
    await slow.world.client.do(machine, Deploy(user_data="#cloud-config\n", comment=comment))


@pytest.mark.parametrize("status", [S.READY, S.DEPLOYED, S.DEPLOYING, S.COMMISSIONING])
async def test_a_machine_that_another_user_holds_stops_the_undo(slow: Stand, status: Status) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, status, memo=ASKED)
    slow.region.machines[slow.node.maas_id or ""].owner = OPERATOR.username
    await it.ask(Action.CANCEL)
    refused(it, OPERATOR.username)
    assert changes(slow) == []


async def test_a_commissioning_that_maas_started_is_not_aborted(slow: Stand) -> None:
    it = await standing(slow, O.COMMISSION_NODE, S.COMMISSIONING)
    slow.region.machines[slow.node.maas_id or ""].owner = None
    await it.ask(Action.CANCEL)
    assert (it.status, changes(slow), machine_of(slow)) == (W.CANCELLED, [], S.COMMISSIONING)


@pytest.mark.parametrize("status", [S.RESCUE_MODE, S.ENTERING_RESCUE_MODE])
async def test_rescue_mode_stops_the_undo(slow: Stand, status: Status) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, status, memo=ASKED)
    await it.ask(Action.CANCEL)
    refused(it, "end this state in MAAS")


async def test_a_locked_machine_stops_the_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, memo=ASKED)
    assert slow.node.maas_id is not None
    slow.region.machines[slow.node.maas_id].locked = True
    forget(slow)
    await it.ask(Action.CANCEL)
    refused(it, "unlock it in MAAS")
    assert changes(slow) == []


# --- after an undo that failed


async def test_a_second_cancel_retries_the_undo_and_then_leaves_maas_unchanged(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    await it.ask(Action.CANCEL)
    await it.ask(Action.CANCEL)
    assert (it.status, machine_of(slow), changes(slow)) == (W.CANCELLED, S.DEPLOYED, [])


async def test_a_second_cancel_completes_the_undo_after_a_person_ended_rescue_mode(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_AGENT_ENROLLMENT, S.RESCUE_MODE, memo=ASKED)
    await it.ask(Action.CANCEL)
    slow.region.move(slow.region.machines[slow.node.maas_id or ""], S.DEPLOYED)
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(slow) == ["release"]


async def test_a_clean_restart_never_continues_after_a_failed_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    for _ in range(3):
        await it.ask(Action.RESTART_CLEAN)
        refused(it, "this workflow did not request that")


async def test_a_node_whose_undo_failed_can_still_be_deleted(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    await it.ask(Action.DELETE)
    refused(it, "this workflow did not request that")
    await it.ask(Action.RESUME)
    assert it.ended is not None and it.ended.status in (W.CANCELLED, W.COMPLETED)
    assert it.node.deleting


async def test_a_deletion_that_is_cancelled_ends_with_the_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    await it.ask(Action.DELETE)
    assert it.status is W.COMPENSATING and it.node.deleting
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert not it.node.deleting and it.node.status is N.ENROLLING


# --- faults of the region


async def test_the_undo_waits_while_the_region_is_unavailable(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    down = slow.region.faults.add(Fault(status=503, times=None))
    await it.ask(Action.CANCEL)
    assert it.status is W.COMPENSATING and down.struck
    slow.region.faults.clear()
    assert await it.finish() is W.CANCELLED


async def test_an_undo_that_takes_too_long_needs_an_operator(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.region.faults.add(Fault(status=503, times=None))
    await it.ask(Action.CANCEL)
    slow.now += timedelta(minutes=89)
    await it.rest()
    assert it.status is W.COMPENSATING
    slow.now += timedelta(minutes=2)
    await it.rest()
    refused(it, "did not finish in time")


async def test_a_release_is_retried_after_the_bmc_did_not_respond(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.region.natures[slow.node.maas_id or ""] = Nature(bmc_error="no route")
    await it.ask(Action.CANCEL)
    assert (it.status, changes(slow)) == (W.COMPENSATING, ["release"])
    slow.region.natures.clear()
    assert await it.finish() is W.CANCELLED


@pytest.mark.parametrize("op", ["abort", "release"])
async def test_a_change_whose_response_was_lost_is_not_sent_again(op: str) -> None:
    async with stand() as slow:
        it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYING, memo=ASKED)
        slow.region.faults.add(Fault(op=op, broken=Broken.DROP))
        await it.ask(Action.CANCEL)
        assert await it.finish() is W.CANCELLED
        assert changes(slow) == ["abort", "release"]
        assert machine_of(slow) in AT_REST


async def test_an_abort_without_effect_is_sent_again_after_minutes(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYING, memo=ASKED)
    machine = slow.region.machines[slow.node.maas_id or ""]
    await it.ask(Action.CANCEL)
    machine.epoch += 1  # cancels the region's planned work on it
    slow.now += timedelta(minutes=4)
    await it.rest()
    assert changes(slow) == ["abort"]
    slow.now += timedelta(minutes=2)
    await it.rest()
    assert changes(slow) == ["abort", "abort"]


async def test_a_site_that_is_no_longer_configured_stops_the_undo(slow: Stand) -> None:
    it = await standing(slow, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, memo=ASKED)
    slow.use(maas=None)
    await it.ask(Action.CANCEL)
    assert it.node.workflow is not None and it.node.workflow.failure_class is None
    slow.now += timedelta(hours=2)
    await it.rest()
    refused(it, "has no MAAS in this")
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
