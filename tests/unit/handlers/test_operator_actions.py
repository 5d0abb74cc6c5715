"""The seven operator actions: they are idempotent, and an operator's retry has all attempts again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import pytest
from msgspec.structs import replace

from farrier.handlers.node.changes import Change, Policy
from farrier.handlers.node.handler import RESPONSES
from farrier.handlers.node.intents import dispatch
from farrier.model.intents.acceptance import Allowed
from farrier.model.intents.actions import ACTIONS, Action, ActionGroup, check
from farrier.model.loop.outcome import Transition, Update, Wait
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import LIVE, OnboardingMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Decommission, Memo, Node, Onboarding, TaskStatus, TaskType
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import AnswerIntent, CreateTask, EndTask, Write
from tests.support.nodes import MINUTE, NOW, agent, decide, decommission, intent, moved, node, onboarding, task
from tests.support.stages import SITE
from tests.support.stored import stored

POLICY = Policy(sites={SITE.name: SITE})
OPERATOR = tuple(action for action, spec in ACTIONS.items() if spec.group is ActionGroup.OPERATOR)
FAILED = (W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)
COUNTED = Memo(deploys=3, commissions=4, failed_deploys=3, datasource_retries=2)


def deployment(status: W, stage: O = O.WAIT_FOR_DEPLOYED) -> Node:
    """Return a node in a deployment whose machine was just observed as deployed by farrier."""
    seen = MaasObservation(
        system_id="abc123",
        state=MaasStatus.DEPLOYED,
        status=6,
        since=NOW,
        read_at=NOW,
        fresh_at=NOW,
        owner="us",
        ours=True,
    )
    job = onboarding(status, mode=OnboardingMode.DEPLOY, stage=stage, memo=COUNTED, attempt=4)
    return node(site=SITE.name, maas_id="abc123", maas=seen, workflow=job)


def healthy(status: W) -> Node:
    return node(workflow=onboarding(status), agent=agent())


def scrubbing(status: W) -> Node:
    return node(N.RETIRED, workflow=decommission(D.SCRUB_GPU, status), tasks=(task(TaskType.SCRUB_GPU),))


def uninstalling(status: W) -> Node:
    """A node that uninstalls, and whose task was lost."""
    lost = task(TaskType.UNINSTALL, TaskStatus.DISPATCHED, lease_until=NOW - MINUTE)
    where = N.REMOVING if status not in FAILED else N.RETIRED
    return node(where, workflow=decommission(D.REMOVE_GPUAAS_NODE_RECORD, status), tasks=(lost,))


NODES: Mapping[str, Callable[[W], Node]] = {
    "deployment": deployment,
    "healthy": healthy,
    "scrubbing": scrubbing,
    "uninstalling": uninstalling,
}


def asked(it: Node, action: Action) -> tuple[Node, Change | Wait[Write] | tuple[Write, ...]]:
    """The node after the commit that answers the intent, and the answer."""
    answered = dispatch.answer(replace(it, intents=(intent(action),)), NOW, POLICY, RESPONSES)
    assert isinstance(answered, Transition | Update | Wait | tuple)
    after = it if isinstance(answered, Wait | tuple) else answered.to
    return stored(replace(it, intents=()), replace(after, intents=()), written(answered), NOW), answered


def written(answered: Change | Wait[Write] | tuple[Write, ...]) -> tuple[Write, ...]:
    return answered if isinstance(answered, tuple) else answered.writes


def verdict(answered: Change | Wait[Write] | tuple[Write, ...]) -> str:
    (answer,) = (write for write in written(answered) if isinstance(write, AnswerIntent))
    return answer.status.value


def test_the_model_has_seven_operator_actions() -> None:
    assert len(OPERATOR) == 7


# The answer to adopt_observed_state of a deployment needs a reading: see test_observed_state.
BY_READING = ("deployment", Action.ADOPT_OBSERVED_STATE)


@pytest.mark.matrix
@pytest.mark.parametrize("status", [status for status in W if status in LIVE])
@pytest.mark.parametrize(("kind", "action"), [each for each in product(NODES, OPERATOR) if each != BY_READING])
def test_an_action_that_is_requested_twice_has_its_effect_once(kind: str, status: W, action: Action) -> None:
    it = NODES[kind](status)
    first, answer = asked(it, action)
    allowed = check(action, it.status, it.management, it.workflow) == Allowed()
    assert verdict(answer) == "rejected" or allowed
    second, again = asked(first, action)
    assert isinstance(again, Wait | tuple)
    assert replace(second, version=first.version) == first
    assert not any(isinstance(write, CreateTask | EndTask) for write in written(again))


@pytest.mark.parametrize("status", FAILED)
@pytest.mark.parametrize("action", [Action.RETRY_STAGE, Action.RESUME, Action.RERUN])
def test_a_retry_by_an_operator_has_all_attempts_again(action: Action, status: W) -> None:
    it, _ = asked(deployment(status), action)
    workflow = it.workflow
    assert isinstance(workflow, Onboarding)
    assert (workflow.status, workflow.attempt, workflow.failure_class) == (W.RUNNING, 1, None)
    known = workflow.memo
    assert (known.commissions, known.failed_deploys, known.datasource_retries) == (0, 0, 0)
    assert known.deploys == 3, "`deploys` numbers the requests, and is no limit"


@pytest.mark.parametrize(
    ("action", "stage"),
    [
        (Action.RETRY_STAGE, O.WAIT_FOR_DEPLOYED),
        (Action.RESUME, O.WAIT_FOR_DEPLOYED),
        (Action.RERUN, O.LOAD_SITE_CONFIG),
    ],
)
def test_each_action_continues_at_its_stage(action: Action, stage: O) -> None:
    it, _ = asked(deployment(W.FAILED_MANUAL_INTERVENTION), action)
    assert it.workflow is not None and it.workflow.stage is stage


def test_a_clean_restart_of_a_decommission_ends_its_tasks_and_keeps_the_release() -> None:
    """Without this memory, the second walk would wait for an agent that is gone with its system."""
    job = decommission(D.POWER_OFF_MAAS_NODE, memo=Memo(released=True))
    it, answer = asked(node(N.RETIRED, workflow=job, tasks=(task(TaskType.SCRUB_GPU),)), Action.RESTART_CLEAN)
    assert any(isinstance(write, EndTask) for write in written(answer))
    assert isinstance(it.workflow, Decommission)
    assert it.workflow.status is W.COMPENSATING
    begun = moved(decide(it)).workflow
    assert begun is not None and begun.status is W.PENDING and begun.memo.released


@pytest.mark.parametrize("deleting", [False, True])
def test_a_deployment_whose_undo_failed_in_a_deletion_resumes_with_the_undo(deleting: bool) -> None:
    failed = replace(deployment(W.FAILED_MANUAL_INTERVENTION), deleting=deleting)
    it, _ = asked(failed, Action.RESUME)
    assert it.workflow is not None
    assert it.workflow.status is (W.COMPENSATING if deleting else W.RUNNING)
