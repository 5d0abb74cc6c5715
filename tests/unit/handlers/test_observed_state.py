"""adopt_observed_state: the stages at which a workflow continues from the observed state, and the refusals with
reasons."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.handlers.node.changes import with_fields
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Step, Transition, Update
from farrier.model.node.conditions import DRAIN_FAILED, Source, stated
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Agent, Memo, TaskStatus, TaskType
from farrier.model.node.stages import PATHS
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import AnswerIntent, ForgetAgent, RevokeBootstrap
from farrier.sim.maas import ADMIN, OPERATOR, Fault, Status
from tests.support.handled import Handled
from tests.support.maas_region import put_into
from tests.support.machines import machine_in
from tests.support.nodes import intent
from tests.support.stages import Stand
from tests.support.stored import OPEN

S = Status
FROM = (W.RUNNING, W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)


async def standing(slow: Stand, machine: Status, stage: O = O.COMMISSION_NODE, **fields: object) -> Handled:
    """Put the node at a stage of a deployment, with its machine just observed in a status."""
    await machine_in(slow, machine)
    slow.onboards(stage, **fields)
    slow.observe()
    slow.world.observed.requests.clear()
    return Handled(slow)


async def adopt(it: Handled) -> tuple[str, str]:
    """Answer the intent without a further run of a stage; returns status and reason."""
    slow = it.stand
    asked = intent(Action.ADOPT_OBSERVED_STATE)
    decision = it.handler().handle(with_fields(slow.node, intents=(asked,)), slow.now)
    if isinstance(decision, Step):
        assert decision.reads_only
        decision = await decision.act(slow.services)
    if isinstance(decision, Transition | Update):
        slow.node = with_fields(decision.to, intents=())
    it.written += getattr(decision, "writes", ())
    (answer,) = (w for w in getattr(decision, "writes", ()) if isinstance(w, AnswerIntent))
    return answer.status.value, answer.reason


# --- onboarding


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize(
    ("machine", "stage"),
    [
        (S.COMMISSIONING, O.WAIT_FOR_READY),
        (S.READY, O.CONFIGURE_STORAGE),
        (S.DEPLOYING, O.WAIT_FOR_DEPLOYED),
        (S.DEPLOYED, O.WAIT_FOR_AGENT_ENROLLMENT),
    ],
)
@pytest.mark.parametrize("status", FROM)
async def test_a_deployment_continues_at_the_stage_of_the_observed_state(
    slow: Stand, machine: Status, stage: O, status: W
) -> None:
    failed = {"attempt": 4, "failure_class": FailureClass.STATE_DISAGREEMENT, "failure_detail": "it is elsewhere"}
    it = await standing(slow, machine)
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS, status=status, **({} if status is W.RUNNING else failed))
    assert (await adopt(it))[0] == "accepted"
    workflow = it.node.workflow
    assert workflow is not None
    assert (workflow.status, workflow.stage, workflow.attempt) == (W.RUNNING, stage, 1)
    assert (workflow.failure_class, workflow.failure_detail) == (None, None)
    assert set(slow.world.observed.operations) <= {"machine", "whoami"}, "MAAS is read, and not changed"


@pytest.mark.parametrize("machine", [S.DEPLOYED, S.DEPLOYING, S.READY, S.COMMISSIONING])
async def test_a_second_intent_changes_nothing(slow: Stand, machine: Status) -> None:
    it = await standing(slow, machine)
    await adopt(it)
    first = it.node
    assert (await adopt(it))[0] == "accepted"
    assert it.node == first


@pytest.mark.parametrize("machine", [S.DEPLOYED, S.DEPLOYING])
async def test_a_deployment_of_another_workflow_counts_as_deployed_but_is_not_undone(
    slow: Stand, machine: Status
) -> None:
    it = await standing(slow, machine, id=99)
    await adopt(it)
    assert it.node.workflow is not None
    known = it.node.workflow.memo
    assert (known.deploys, known.disowned) == (1, 1)
    await it.ask(Action.CANCEL)
    assert it.node.workflow is not None
    assert it.node.workflow.failure_class is FailureClass.UNDO_FAILED
    assert "release" not in slow.world.observed.operations


async def test_a_deployment_of_this_workflow_is_still_undone(slow: Stand) -> None:
    it = await standing(slow, S.DEPLOYED, memo=Memo(deploys=1))
    await adopt(it)
    await it.ask(Action.CANCEL)
    assert await it.finish() is W.CANCELLED
    assert "release" in slow.world.observed.operations


async def test_a_machine_that_was_released_meanwhile_is_deployed_again(slow: Stand) -> None:
    it = await standing(slow, S.READY, O.WAIT_FOR_AGENT_ENROLLMENT, memo=Memo(deploys=2, failed_deploys=3))
    await adopt(it)
    assert it.node.workflow is not None
    known = it.node.workflow.memo
    assert it.node.workflow.stage is O.CONFIGURE_STORAGE
    assert (known.deploys, known.disowned, known.failed_deploys) == (2, 2, 0)


@pytest.mark.parametrize("status", [N.ENROLLING, N.QUARANTINED, N.RETIRED])
async def test_a_deployed_machine_with_a_healthy_agent_ends_the_workflow_as_reconciled(slow: Stand, status: N) -> None:
    it = await standing(slow, S.DEPLOYED, status=W.FAILED_MANUAL_INTERVENTION)
    begun = slow.now - timedelta(minutes=1)
    slow.onboards(O.WAIT_FOR_DEPLOYED, mode_given_at=begun)
    slow.node = with_fields(slow.node, status=status, agent=Agent(enrolled_at=slow.now, last_heartbeat_at=slow.now))
    await it.ask(Action.ADOPT_OBSERVED_STATE)
    assert it.status is W.RECONCILED
    assert it.node.status is N.ACTIVE, "a healthy node leaves offline at once"


async def test_a_deployed_machine_without_an_agent_waits_for_the_agent(slow: Stand) -> None:
    it = await standing(slow, S.DEPLOYED)
    await it.ask(Action.ADOPT_OBSERVED_STATE)
    assert it.node.workflow is not None and it.node.workflow.stage is O.WAIT_FOR_AGENT_ENROLLMENT
    slow.node = with_fields(slow.node, agent=Agent(enrolled_at=slow.now, last_heartbeat_at=slow.now))
    await it.rest()
    assert (it.status, it.node.status) == (W.COMPLETED, N.ACTIVE)


@pytest.mark.parametrize(
    "machine",
    [S.NEW, S.FAILED_COMMISSIONING, S.FAILED_DEPLOYMENT, S.BROKEN, S.ALLOCATED, S.RELEASING, S.RESCUE_MODE],
)
async def test_any_other_state_is_refused_with_the_accepted_states(slow: Stand, machine: Status) -> None:
    it = await standing(slow, machine)
    before = it.node
    verdict, reason = await adopt(it)
    assert verdict == "rejected" and it.node == before
    assert f"MAAS reports {slow.node.maas and slow.node.maas.state}" in reason
    assert "commissioning, ready, deploying, deployed" in reason


async def test_an_absent_machine_is_not_adopted(slow: Stand) -> None:
    it = await standing(slow, S.READY)
    slow.region.forget(next(iter(slow.region.machines.values())))
    slow.observe()
    assert await adopt(it) == (
        "rejected",
        _reason("MAAS reports absent; farrier can continue only from: commissioning, ready, deploying, deployed"),
    )


async def test_the_machine_is_read_before_the_answer(slow: Stand) -> None:
    it = await standing(slow, S.DEPLOYED)
    slow.now += timedelta(minutes=25)
    put_into(slow.region.machines[slow.node.maas_id or ""], S.READY, owner=None, power="off", previous=S.DEPLOYED)
    assert await adopt(it) == ("accepted", "MAAS reports ready; the workflow continues at stage configure_storage")
    assert slow.world.observed.operations == ["machine"]


async def test_a_machine_that_cannot_be_read_is_not_adopted(slow: Stand) -> None:
    it = await standing(slow, S.DEPLOYED)
    slow.region.faults.add(Fault(status=503, body=b"no rack", content_type="text/plain", times=None))
    verdict, reason = await adopt(it)
    assert verdict == "rejected" and "cannot be read" in reason


async def test_a_node_without_a_machine_has_nothing_to_adopt(slow: Stand) -> None:
    slow.onboards(O.CREATE_OR_FIND_IN_MAAS)
    assert await adopt(Handled(slow)) == ("rejected", _reason("the node has no machine in MAAS"))


@pytest.mark.parametrize("machine", [S.READY, S.DEPLOYED, S.DEPLOYING, S.COMMISSIONING])
async def test_a_machine_that_another_user_holds_is_not_adopted(slow: Stand, machine: Status) -> None:
    it = await standing(slow, machine)
    slow.region.machines[slow.node.maas_id or ""].owner = OPERATOR.username
    slow.observe()
    verdict, reason = await adopt(it)
    assert verdict == "rejected" and repr(OPERATOR.username) in reason


async def test_a_deployed_machine_without_an_owner_is_not_adopted(slow: Stand) -> None:
    it = await standing(slow, S.DEPLOYED)
    slow.region.machines[slow.node.maas_id or ""].owner = None
    assert (await adopt(it))[0] == "rejected"


# --- decommission


async def decommissioned(slow: Stand, machine: Status, stage: D, **fields: object) -> Handled:
    it = await standing(slow, machine)
    slow.decommissions(stage, status=W.FAILED_MANUAL_INTERVENTION, **fields)
    return it


async def absent(slow: Stand) -> None:
    slow.region.forget(next(iter(slow.region.machines.values())))
    slow.observe()


@pytest.mark.parametrize(
    ("mode", "following"),
    [
        (DecommissionMode.FULL_DECOMMISSION, D.POWER_OFF_MAAS_NODE),
        (DecommissionMode.REIMAGE, D.RETIRE_GPUAAS_NODE),
    ],
)
@pytest.mark.parametrize("machine", [S.READY, S.NEW])
async def test_a_machine_that_is_already_released_skips_the_release(
    slow: Stand, machine: Status, mode: DecommissionMode, following: D
) -> None:
    it = await decommissioned(slow, machine, D.RELEASE_MAAS_NODE, mode=mode)
    assert await adopt(it) == (
        "accepted",
        f"MAAS reports {machine.name.lower()}; the workflow continues at stage release_maas_node",
    )
    await it.run()
    workflow = it.node.workflow
    assert workflow is not None
    assert (workflow.status, workflow.stage) == (W.RUNNING, following)
    assert [skipped.stage for skipped in workflow.skipped] == [D.RELEASE_MAAS_NODE]
    assert workflow.memo.released and ForgetAgent() in it.written, "the agent is gone with the system"


async def test_an_absent_machine_skips_the_release(slow: Stand) -> None:
    it = await decommissioned(slow, S.READY, D.RELEASE_MAAS_NODE)
    await absent(slow)
    assert (await adopt(it))[0] == "accepted"
    await it.run()
    assert it.node.workflow is not None
    assert it.node.workflow.stage is D.POWER_OFF_MAAS_NODE and not it.node.workflow.memo.released


async def test_a_new_machine_that_is_on_may_still_have_its_agent(slow: Stand) -> None:
    it = await decommissioned(slow, S.NEW, D.RELEASE_MAAS_NODE)
    slow.observe(power_state="on")
    assert (await adopt(it))[0] == "accepted"
    await it.run()
    assert it.node.workflow is not None and not it.node.workflow.memo.released
    assert ForgetAgent() not in it.written


async def test_an_absent_machine_completes_the_removal_of_its_record(slow: Stand) -> None:
    it = await decommissioned(slow, S.READY, D.REMOVE_MAAS_RECORD)
    assert (await adopt(it))[0] == "rejected"
    await absent(slow)
    await it.ask(Action.ADOPT_OBSERVED_STATE)
    assert (it.status, it.node.status) == (W.RECONCILED, N.DELETED)


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("machine", [S.DEPLOYED, S.RELEASING, S.BROKEN])
@pytest.mark.parametrize("stage", [D.DRAIN_NODE, D.LOAD_SITE_CONFIG, D.RELEASE_MAAS_NODE])
async def test_a_machine_that_is_not_released_is_refused(slow: Stand, machine: Status, stage: D) -> None:
    it = await decommissioned(slow, machine, stage)
    verdict, reason = await adopt(it)
    assert verdict == "rejected" and f"stage {stage} accepts only ready, new, absent" in reason


async def test_a_machine_that_was_deployed_again_after_the_adoption_is_released(slow: Stand) -> None:
    it = await decommissioned(slow, S.READY, D.LOAD_SITE_CONFIG)
    assert (await adopt(it))[0] == "accepted"
    record = slow.region.machines[it.node.maas_id or ""]
    put_into(record, S.DEPLOYED, owner=ADMIN.username, power="on", previous=S.READY)
    slow.observe()
    await it.rest()
    assert "release" in slow.world.observed.operations


FULL = PATHS[DecommissionMode.FULL_DECOMMISSION]
WITH_A_PERSON = [stage for stage in FULL if isinstance(stage, D) and stage is not D.DISABLE_NODE]


async def finished(it: Handled) -> list[TaskType]:
    """Run to the end, with agents that carry out tasks. Returns the types of these tasks."""
    done: list[TaskType] = []
    for _ in range(60):
        await it.rest()
        for task in [t for t in it.node.tasks if t.status in OPEN]:
            done.append(task.type)
            rest = (t for t in it.node.tasks if t.id != task.id)
            it.stand.node = with_fields(it.node, tasks=(*rest, replace(task, status=TaskStatus.SUCCEEDED)))
        if it.node.workflow is None:
            return done
        it.pass_time()
    raise AssertionError(it.node.workflow)


def work_after(stage: D) -> list[TaskType]:
    """The tasks of agents from this stage on."""
    carried = {
        D.FORCE_RELEASE_ALLOCATIONS: TaskType.RELEASE_ALLOCATIONS,
        D.CLEANUP_STORAGE: TaskType.CLEANUP_STORAGE,
        D.SCRUB_GPU: TaskType.SCRUB_GPU,
        D.VALIDATE_CLEAN_NODE: TaskType.VALIDATE_CLEAN,
    }
    return [carried[later] for later in FULL[FULL.index(stage) :] if isinstance(later, D) and later in carried]


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("gone", [False, True], ids=["ready", "absent"])
@pytest.mark.parametrize("stage", WITH_A_PERSON)
async def test_a_decommission_skips_the_stages_that_maas_shows_as_done_and_completes_the_others(
    slow: Stand, stage: D, gone: bool
) -> None:
    """The workflow ends reconciled, and the node deleted; `Handled` asserts the edges after each run."""
    it = await decommissioned(slow, S.READY, stage)
    if gone:
        await absent(slow)
    slow.node = with_fields(slow.node, status=N.RETIRED, agent=Agent(enrolled_at=slow.now), ever_onboarded=True)
    slow.observe(power_state="off")
    is_shown = gone or FULL.index(stage) <= FULL.index(D.POWER_OFF_MAAS_NODE)
    assert await it.ask(Action.ADOPT_OBSERVED_STATE) == ("accepted" if is_shown else "rejected")
    if not is_shown:
        return
    done = await finished(it)
    assert (it.status, it.node.status) == (W.RECONCILED, N.DELETED)
    assert [task for task in done if task is not TaskType.UNINSTALL] == work_after(stage)
    assert not {"release", "power_off"} & set(slow.world.observed.operations)
    if stage is not D.REMOVE_MAAS_RECORD:
        assert RevokeBootstrap() in it.written and ForgetAgent() in it.written, "cleanup_secrets ran"


@pytest.mark.parametrize("mode", [DecommissionMode.REIMAGE, DecommissionMode.FULL_DECOMMISSION])
async def test_an_adoption_during_a_drain_issues_the_drain_task(slow: Stand, mode: DecommissionMode) -> None:
    it = await decommissioned(slow, S.READY, D.DRAIN_NODE, mode=mode)
    slow.node = with_fields(
        slow.node, status=N.QUARANTINED, conditions=(stated(Source.WORKFLOW, DRAIN_FAILED, "busy"),)
    )
    assert await it.ask(Action.ADOPT_OBSERVED_STATE) == "accepted"
    assert it.node.status is N.DRAINING and [task.type for task in it.node.tasks] == [TaskType.DRAIN]


async def test_a_second_adoption_of_a_decommission_changes_nothing(slow: Stand) -> None:
    it = await decommissioned(slow, S.READY, D.SCRUB_GPU)
    await adopt(it)
    first = it.node
    assert await adopt(it) == ("accepted", "the state in MAAS is already adopted") and it.node == first


async def test_a_clean_restart_forgets_the_adopted_state(slow: Stand) -> None:
    it = await decommissioned(slow, S.READY, D.SCRUB_GPU)
    await adopt(it)
    await it.ask(Action.RESTART_CLEAN)
    assert it.node.workflow is not None and not it.node.workflow.memo.adopted


@pytest.mark.parametrize(
    ("mode", "stage"),
    [
        (DecommissionMode.SOFT_RESET, D.SCRUB_GPU),
        (DecommissionMode.REIMAGE, D.RETIRE_GPUAAS_NODE),
    ],
)
async def test_an_adoption_is_refused_if_no_later_stage_changes_maas(
    slow: Stand, mode: DecommissionMode, stage: D
) -> None:
    it = await decommissioned(slow, S.READY, stage, mode=mode)
    assert await adopt(it) == (
        "rejected",
        _reason(f"the remaining stages of this {mode} do not depend on the state in MAAS"),
    )


def _reason(why: str) -> str:
    return f"adopt_observed_state: {why}"
