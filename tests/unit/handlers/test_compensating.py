"""Cancel, restart_clean and delete of a deployment, wherever its machine stands: what MAAS is asked, and the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from farrier.handlers.node import region
from farrier.handlers.node.moves import change
from farrier.model.actions import Action
from farrier.model.failures import FAILURES, FailureClass
from farrier.model.maas_changes import Deploy, Lock
from farrier.model.node import AfterUndo, Onboarding, Upstream
from farrier.model.stages import DETOUR, PATHS
from farrier.model.stages import OnboardingStage as O
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import OnboardingMode
from farrier.model.workflow import WorkflowStatus as W
from farrier.model.writes import ForgetAgent, RevokeBootstrap
from farrier.sim.maas import OPERATOR, Broken, Fault, Nature, Status
from tests.support.handled import Handled
from tests.support.machines import COMMENT, created, machine_in, slow_region
from tests.support.stages import Stand, stand

S = Status
AT_REST = (S.NEW, S.READY)
CHANGES = ("abort", "release", "unlock", "deploy", "commission", "create", "update", "delete", "power_off")
ASKED = Upstream(deploys=1, token="d1")


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    async with stand(slow_region()) as made:
        yield made


def changes(at: Stand) -> list[str]:
    return [operation for operation in at.world.observed.operations if operation in CHANGES]


def forget(at: Stand) -> None:
    at.world.observed.requests.clear()


async def standing(at: Stand, stage: O, machine: Status, **fields: object) -> Handled:
    """A deployment at a stage with its machine in a status."""
    await machine_in(at, machine)
    at.onboards(stage, **fields)
    forget(at)
    return Handled(at)


def machine_of(at: Stand) -> Status:
    assert at.node.maas_id is not None
    return at.region.machines[at.node.maas_id].status


# Where a stage would have its machine, and what its undo asks for.
STAGES: list[tuple[O, Status, list[str]]] = [
    (O.CREATE_OR_FIND_IN_MAAS, S.NEW, []),
    (O.COMMISSION_NODE, S.NEW, []),
    (O.COMMISSION_NODE, S.FAILED_COMMISSIONING, []),
    (O.WAIT_FOR_READY, S.COMMISSIONING, ["abort"]),
    (O.WAIT_FOR_READY, S.TESTING, ["abort"]),
    (O.WAIT_FOR_READY, S.FAILED_COMMISSIONING, []),
    (O.WAIT_FOR_READY, S.FAILED_TESTING, []),
    (O.WAIT_FOR_READY, S.READY, []),
    (O.CONFIGURE_STORAGE, S.READY, []),
    (O.APPLY_ROCE_PHASE2, S.READY, []),
    (O.ENSURE_PXE_INTERFACE_AUTO, S.READY, []),
    (O.RENDER_CLOUD_INIT, S.READY, []),
    (O.DEPLOY_VIA_MAAS, S.READY, []),
    (O.DEPLOY_VIA_MAAS, S.ALLOCATED, ["release"]),
    (O.DEPLOY_VIA_MAAS, S.DEPLOYING, ["abort", "release"]),
    (O.WAIT_FOR_DEPLOYED, S.DEPLOYING, ["abort", "release"]),
    (O.WAIT_FOR_DEPLOYED, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_DEPLOYED, S.FAILED_DEPLOYMENT, ["release"]),
    (O.CLASSIFY_DEPLOY_FAILURE, S.FAILED_DEPLOYMENT, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.FAILED_DEPLOYMENT, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.RELEASING, []),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.FAILED_RELEASING, ["release"]),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.DISK_ERASING, []),
    (O.RECOVER_FOR_DATASOURCE_RETRY, S.FAILED_DISK_ERASING, ["release"]),
    (O.ENSURE_HARDWARE_SYNC_CONFIGURED, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_HARDWARE_SYNC_HEALTHY, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, ["release"]),
    (O.WAIT_FOR_AGENT_ENROLLMENT, S.BROKEN, []),
]
IDS = [f"{stage}-{status.name.lower()}" for stage, status, _ in STAGES]
# What commissioning or a person left behind is neither in our way nor ours to mend.
STAYS = (S.FAILED_COMMISSIONING, S.FAILED_TESTING, S.BROKEN)


def test_the_table_has_every_stage_that_may_have_changed_something() -> None:
    path = PATHS[OnboardingMode.DEPLOY]
    later = set(path[path.index(O.CREATE_OR_FIND_IN_MAAS) :]) | DETOUR
    assert {stage for stage, _, _ in STAGES} == later


@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
@pytest.mark.parametrize("node_status", [N.ENROLLING, N.QUARANTINED, N.RETIRED])
async def test_a_cancel_at_any_stage_leaves_a_machine_that_nobody_holds(
    at: Stand, stage: O, status: Status, asked: list[str], node_status: N
) -> None:
    it = await standing(at, stage, status, upstream=ASKED)
    at.node = change(at.node, status=node_status)
    assert await it.ask(Action.CANCEL) == "accepted"
    assert await it.finish() is W.CANCELLED
    assert changes(at) == asked
    assert machine_of(at) in ((status,) if status in STAYS else AT_REST)
    assert (it.node.status, it.node.workflow) == (node_status, None)
    assert it.node.maas_id is not None, "the record stays"


@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
async def test_a_deletion_undoes_the_same_before_it_walks_on(
    at: Stand, stage: O, status: Status, asked: list[str]
) -> None:
    it = await standing(at, stage, status, upstream=ASKED)
    assert await it.ask(Action.DELETE) == "accepted"
    for _ in range(60):
        if it.ended is not None:
            break
        it.pass_time()
        await it.rest()
    assert it.ended is not None and it.ended.status in (W.CANCELLED, W.COMPLETED)
    assert changes(at)[: len(asked)] == asked
    assert it.node.deleting and it.node.status is not N.ENROLLING, "on its way to deleted"


@pytest.mark.parametrize(("stage", "status", "asked"), STAGES, ids=IDS)
async def test_a_clean_restart_undoes_the_same_and_forgets_all_but_the_number_of_deployments(
    at: Stand, stage: O, status: Status, asked: list[str]
) -> None:
    known = Upstream(deploys=1, datasource_retries=2, token="d1", failure_class=FailureClass.DEPLOY_FAILED)
    it = await standing(at, stage, status, upstream=known, attempt=3)
    it.request(Action.RESTART_CLEAN)
    seen = await until_pending(it)
    assert changes(at) == asked
    assert (seen.stage, seen.attempt, seen.failure_class) == (None, 1, None)
    assert seen.upstream == Upstream(deploys=1, disowned=1)


async def until_pending(it: Handled) -> Onboarding:
    """Run by run, up to the one that ends the undo."""
    for _ in range(200):
        if not await it.run():
            it.pass_time()
        it.stand.world.clock.now += 1
        workflow = it.node.workflow
        assert isinstance(workflow, Onboarding)
        if workflow.status is W.PENDING:
            return workflow
    raise AssertionError(f"never undone: {it.node}")


# --- before there is anything to undo


@pytest.mark.parametrize("stage", [O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS])
async def test_before_maas_is_reached_a_cancel_ends_at_once_and_asks_for_nothing(at: Stand, stage: O) -> None:
    it = await standing(at, stage, S.READY)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert at.world.observed.operations == []


async def test_a_rerun_does_not_forget_that_there_is_something_to_undo(at: Stand) -> None:
    it = await standing(
        at, O.WAIT_FOR_DEPLOYED, S.FAILED_DEPLOYMENT, status=W.FAILED_MANUAL_INTERVENTION, upstream=ASKED
    )
    at.node = change(at.node, intents=())
    at.use(maas=None)  # so that it stays at its first stage
    await it.ask(Action.RERUN)
    assert it.node.workflow is not None and it.node.workflow.stage is O.LOAD_SITE_CONFIG
    assert it.node.workflow.upstream.touched


async def test_a_rerun_of_what_never_reached_maas_has_nothing_to_undo(at: Stand) -> None:
    it = await standing(at, O.LOAD_SITE_CONFIG, S.READY, status=W.FAILED_MANUAL_INTERVENTION)
    at.use(maas=None)
    await it.ask(Action.RERUN)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert at.world.observed.operations == []


async def test_a_machine_whose_creation_was_not_answered_is_found_and_kept(at: Stand) -> None:
    at.onboards(O.CREATE_OR_FIND_IN_MAAS)
    machine = await created(at, description=region.comment(at.node, "create"))
    at.node = change(at.node, maas_id=None, maas_created=False)
    it = Handled(at)
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED
    assert (it.node.maas_id, it.node.maas_created) == (machine.system_id, True)


async def test_somebody_elses_machine_of_the_same_name_is_not_taken_for_a_lost_one(at: Stand) -> None:
    await created(at, description="theirs")
    at.node = change(at.node, maas_id=None, maas_created=False)
    at.onboards(O.CREATE_OR_FIND_IN_MAAS)
    it = Handled(at)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id) == (W.CANCELLED, None)


async def test_a_machine_that_was_found_and_not_taken_is_left_alone(at: Stand) -> None:
    machine = await machine_in(at, S.DEPLOYED)
    at.node = change(at.node, maas_id=None, maas_created=False)
    at.onboards(O.CREATE_OR_FIND_IN_MAAS, upstream=Upstream(candidate=machine.system_id))
    forget(at)
    it = Handled(at)
    await it.ask(Action.CANCEL)
    assert (it.status, it.node.maas_id) == (W.CANCELLED, None)
    assert at.world.observed.operations == []


async def test_a_machine_that_is_gone_needs_no_undo(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    at.region.forget(next(iter(at.region.machines.values())))
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED


# --- whose it is


@pytest.mark.parametrize("status", [S.DEPLOYED, S.DEPLOYING, S.ALLOCATED, S.FAILED_DEPLOYMENT])
async def test_a_deployment_that_is_not_this_workflows_stops_the_undo(at: Stand, status: Status) -> None:
    it = await standing(at, O.WAIT_FOR_READY, status, id=99)  # the events have another workflow's comments
    await it.ask(Action.CANCEL)
    refused(it, "not because of this workflow")
    assert changes(at) == []


async def test_a_deployment_that_left_its_comment_alone_is_ours(at: Stand) -> None:
    """The number of the deployment is written before it is asked for; its comment tells as well."""
    it = await standing(at, O.DEPLOY_VIA_MAAS, S.DEPLOYING)
    assert region.comment(at.node, "deploy 1") == COMMENT
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(at) == ["abort", "release"]


async def test_of_several_deployments_the_last_one_tells_whose_it_is(at: Stand) -> None:
    it = await standing(at, O.DEPLOY_VIA_MAAS, S.READY)
    for comment in (COMMENT, "by hand"):
        await deploy(at, comment)
        if comment == COMMENT:
            at.region.move(at.region.machines[at.node.maas_id or ""], S.READY)
    await it.ask(Action.CANCEL)
    refused(it, "not because of this workflow")


async def deploy(at: Stand, comment: str) -> None:
    assert at.node.maas_id is not None
    machine = await at.world.client.machine(at.node.maas_id)
    await at.world.client.do(machine, Deploy(user_data="#cloud-config\n", comment=comment))


@pytest.mark.parametrize("status", [S.READY, S.DEPLOYED, S.DEPLOYING, S.COMMISSIONING])
async def test_a_machine_that_somebody_else_holds_stops_the_undo(at: Stand, status: Status) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, status, upstream=ASKED)
    at.region.machines[at.node.maas_id or ""].owner = OPERATOR.username
    await it.ask(Action.CANCEL)
    refused(it, OPERATOR.username)
    assert changes(at) == []


async def test_what_maas_commissions_by_itself_goes_on(at: Stand) -> None:
    it = await standing(at, O.COMMISSION_NODE, S.COMMISSIONING)
    at.region.machines[at.node.maas_id or ""].owner = None
    await it.ask(Action.CANCEL)
    assert (it.status, changes(at), machine_of(at)) == (W.CANCELLED, [], S.COMMISSIONING)


@pytest.mark.parametrize("status", [S.RESCUE_MODE, S.ENTERING_RESCUE_MODE])
async def test_a_persons_rescue_is_not_ended(at: Stand, status: Status) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, status, upstream=ASKED)
    await it.ask(Action.CANCEL)
    refused(it, "end that in MAAS")


async def test_a_lock_on_what_we_deployed_is_opened_first(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, upstream=ASKED)
    assert at.node.maas_id is not None
    await at.world.client.do(await at.world.client.machine(at.node.maas_id), Lock(comment="x"))
    forget(at)
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(at) == ["unlock", "release"]


def refused(it: Handled, detail: str) -> None:
    workflow = it.node.workflow
    assert workflow is not None
    assert (workflow.status, workflow.failure_class) == (W.FAILED_MANUAL_INTERVENTION, FailureClass.UNDO_FAILED)
    assert detail in (workflow.failure_detail or "")
    assert it.node.status is N.ENROLLING
    assert FAILURES[FailureClass.UNDO_FAILED].action


# --- after an undo that failed


async def test_a_second_cancel_tries_once_more_and_then_leaves_maas_as_it_is(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    await it.ask(Action.CANCEL)
    await it.ask(Action.CANCEL)
    assert (it.status, machine_of(at), changes(at)) == (W.CANCELLED, S.DEPLOYED, [])


async def test_a_second_cancel_undoes_what_a_person_made_possible(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_AGENT_ENROLLMENT, S.RESCUE_MODE, upstream=ASKED)
    await it.ask(Action.CANCEL)
    at.region.move(at.region.machines[at.node.maas_id or ""], S.DEPLOYED)
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert changes(at) == ["release"]


async def test_a_clean_restart_never_goes_on_over_what_it_could_not_undo(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    for _ in range(3):
        await it.ask(Action.RESTART_CLEAN)
        refused(it, "not because of this workflow")


async def test_a_node_whose_undo_failed_can_still_be_deleted(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_READY, S.DEPLOYED, id=99)
    await it.ask(Action.DELETE)
    refused(it, "not because of this workflow")
    await it.ask(Action.RESUME)
    assert it.ended is not None and it.ended.status in (W.CANCELLED, W.COMPLETED)
    assert it.node.deleting


async def test_a_deletion_that_is_cancelled_ends_with_the_undo(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    await it.ask(Action.DELETE)
    assert it.status is W.COMPENSATING and it.node.deleting
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert not it.node.deleting and it.node.status is N.ENROLLING


# --- a region in trouble


async def test_a_region_that_is_down_is_waited_for(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    down = at.region.faults.add(Fault(status=503, times=None))
    await it.ask(Action.CANCEL)
    assert it.status is W.COMPENSATING and down.struck
    at.region.faults.clear()
    assert await it.finish() is W.CANCELLED


async def test_an_undo_that_takes_too_long_is_shown_to_a_person(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    at.region.faults.add(Fault(status=503, times=None))
    await it.ask(Action.CANCEL)
    at.now += timedelta(minutes=89)
    await it.rest()
    assert it.status is W.COMPENSATING
    at.now += timedelta(minutes=2)
    await it.rest()
    refused(it, "not done in time")


async def test_a_bmc_that_does_not_answer_is_asked_again(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    at.region.natures[at.node.maas_id or ""] = Nature(bmc_error="no route")
    await it.ask(Action.CANCEL)
    assert (it.status, changes(at)) == (W.COMPENSATING, ["release"])
    at.region.natures.clear()
    assert await it.finish() is W.CANCELLED


@pytest.mark.parametrize("op", ["abort", "release"])
async def test_a_change_whose_answer_was_lost_is_not_asked_for_again(op: str) -> None:
    async with stand() as at:
        it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYING, upstream=ASKED)
        at.region.faults.add(Fault(op=op, broken=Broken.DROP))
        await it.ask(Action.CANCEL)
        assert await it.finish() is W.CANCELLED
        assert changes(at) == ["abort", "release"]
        assert machine_of(at) in AT_REST


async def test_an_abort_that_came_to_nothing_is_asked_for_again_minutes_later(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYING, upstream=ASKED)
    machine = at.region.machines[at.node.maas_id or ""]
    await it.ask(Action.CANCEL)
    machine.epoch += 1  # whatever was planned for it will not happen
    at.now += timedelta(minutes=4)
    await it.rest()
    assert changes(at) == ["abort"]
    at.now += timedelta(minutes=2)
    await it.rest()
    assert changes(at) == ["abort", "abort"]


async def test_a_site_that_is_no_longer_configured_stops_the_undo(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    at.use(maas=None)
    await it.ask(Action.CANCEL)
    refused(it, "no MAAS configured")
    await it.ask(Action.CANCEL)
    assert it.status is W.CANCELLED


# --- asked twice, and what else goes with it


async def test_a_cancel_is_asked_for_twice_and_done_once(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    assert [await it.ask(Action.CANCEL), await it.ask(Action.CANCEL)] == ["accepted", "accepted"]
    assert await it.finish() is W.CANCELLED
    assert changes(at) == ["release"]


async def test_a_cancel_during_a_clean_restart_is_the_end(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    await it.ask(Action.RESTART_CLEAN)
    assert it.node.workflow is not None and it.node.workflow.after_undo is AfterUndo.RESTART
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED


async def test_what_was_deployed_can_neither_enrol_nor_report_any_more(at: Stand) -> None:
    it = await standing(at, O.WAIT_FOR_AGENT_ENROLLMENT, S.DEPLOYED, upstream=ASKED)
    await it.ask(Action.CANCEL)
    await it.finish()
    assert RevokeBootstrap() in it.written and ForgetAgent() in it.written


async def test_maas_is_read_once_while_it_gives_a_machine_back(at: Stand) -> None:
    """And then waited for by what its observer wrote down."""
    it = await standing(at, O.WAIT_FOR_DEPLOYED, S.DEPLOYED, upstream=ASKED)
    await it.ask(Action.CANCEL)
    at.observe()
    forget(at)
    for _ in range(5):
        await it.rest()
    assert at.world.observed.operations == []
