"""The node accepts every intent that an advice names, by the real table of actions and the real handler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.model import mapping
from farrier.model.actions import Action
from farrier.model.bmc import BmcFailure, PowerState
from farrier.model.failures import BMC_ADVICE, FAILURES, FailureClass, QuarantineCause
from farrier.model.management import Management
from farrier.model.node import Bmc, Decommission, Node, Onboarding, Quarantine
from farrier.model.outcome import Record
from farrier.model.stages import DecommissionStage as D
from farrier.model.stages import OnboardingStage as O
from farrier.model.status import NodeStatus as N
from farrier.model.views import WorkflowView
from farrier.model.workflow import DecommissionMode, OnboardingMode, WorkflowKind
from farrier.model.workflow import WorkflowStatus as W
from tests.support.nodes import NOW, agent, answers, decommission, intent, moved, node, onboarding, with_bmc
from tests.support.played_region import DEPLOYED, SYSTEM_ID, seen
from tests.support.stages import SITE
from tests.unit.model.test_clocks import workflow as workflow_view
from tests.unit.model.test_why import why

HANDLER = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
# The statuses in which a running node is adopted.
_ADOPTED = (N.ENROLLING, N.QUARANTINED)
# Words in the texts that name things and not intents.
NO_INTENTS = re.compile(
    r"the drain task|delete the node that is named|(?:a|its|the|the missing|cancel a) decommission\b|the deletion"
    r"|decommission_failed|the node's quarantine"
)
PARAMS: dict[Action, dict[str, Any]] = {
    Action.ONBOARD: {"mode": "manual"},
    Action.DECOMMISSION: {"mode": "soft_reset"},
    Action.DRAIN: {},
    Action.SET_BMC: {"address": "https://10.0.0.2"},
    Action.RELEASE: {"reason": "cleaned by hand"},
    Action.QUARANTINE: {"reason": "x"},
    Action.SET_POWER: {"power": "on"},
}
# Intents that depend on more than states, which other tests cover.
BY_OBSERVATION = {Action.ADOPT_OBSERVED_STATE}


def named(text: str) -> list[Action]:
    """The intents that an advice names."""
    left = NO_INTENTS.sub(" ", text)
    return [action for action in Action if re.search(rf"\b{action}\b", left)]


def shown(it: Node, job: Onboarding | Decommission | None) -> WorkflowView | None:
    if job is None:
        return None
    failure = {"failure_class": job.failure_class, "failure_detail": job.failure_detail, "status": job.status}
    return workflow_view(kind=job.kind, mode=job.mode, stage=job.stage, **failure)


def advised(it: Node, last: Onboarding | Decommission | None = None) -> str:
    """The advice that `node why` shows for the node."""
    live = shown(it, it.workflow)
    return why(
        status=it.status,
        management=it.management,
        workflow=live,
        last_workflow=live or shown(it, last),
        quarantine_cause=it.quarantine and it.quarantine.cause,
        quarantine_reason=it.quarantine and it.quarantine.reason,
        deleting=it.deleting,
        ever_onboarded=it.ever_onboarded,
        not_scrubbed=it.not_scrubbed,
        agentless=it.agentless,
        bmc=it.bmc,
        same_machine=it.same_machine,
        outcome=Record("wait", "waits for an operator", "x.py:1"),
    ).advice


def refusals(it: Node, text: str) -> Iterator[tuple[Action, str]]:
    for action in named(text):
        if action in BY_OBSERVATION:
            continue
        params = PARAMS.get(action, {})
        if "force: true" in text and action in (Action.DECOMMISSION, Action.REMOVE, Action.DRAIN):
            params = params | {"force": True, "reason": "no agent"}
        decision = HANDLER.handle(replace(it, intents=(intent(action, **params),)), NOW)
        yield from ((action, reason) for verdict, reason in answers(decision) if verdict != "accepted")


def failed(kind: WorkflowKind, failure: FailureClass, status: W) -> Onboarding | Decommission:
    fields = {"failure_class": failure, "failure_detail": "the detail"}
    if kind is WorkflowKind.ONBOARDING:
        mode = OnboardingMode.ADOPT if failure is FailureClass.ADOPT_FAILED else OnboardingMode.DEPLOY
        stage = O.RESOLVE_POWER_CREDENTIALS if mode is OnboardingMode.ADOPT else O.WAIT_FOR_READY
        return onboarding(status, mode=mode, stage=stage, **fields)
    return decommission(D.RELEASE_MAAS_NODE, status, **fields)


def with_failure(
    kind: WorkflowKind, failure: FailureClass, status: W, where: N, management: Management, *, deleting: bool
) -> Node:
    return node(
        where,
        management=management,
        workflow=failed(kind, failure, status),
        deleting=deleting,
        site=SITE.name,
        maas_id=SYSTEM_ID,
        maas=seen(DEPLOYED, NOW, None),
        bmc_address="https://10.0.0.1",
        bmc_credential="env:BMC",
        bmc=Bmc(serial="SN-1"),
        agent=agent(),
        quarantine=Quarantine(QuarantineCause.ONBOARDING_FAILED, "it") if where is N.QUARANTINED else None,
        **({"ever_active": False, "ever_onboarded": False} if kind is WorkflowKind.ONBOARDING else {}),
    )


@pytest.mark.matrix
@pytest.mark.parametrize("deleting", [False, True], ids=["kept", "being deleted"])
@pytest.mark.parametrize("status", [W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION])
@pytest.mark.parametrize("failure", FailureClass)
def test_an_intent_advised_for_a_failure_is_accepted(failure: FailureClass, status: W, deleting: bool) -> None:
    if failure is FailureClass.ADOPT_FAILED and status is W.FAILED_RETRYABLE:
        return  # an adoption that failed waits for an operator
    kinds = [WorkflowKind.ONBOARDING] if failure is FailureClass.ADOPT_FAILED else list(WorkflowKind)
    managements = [Management.MANAGEABLE, Management.ENROLL]
    if failure is FailureClass.ADOPT_FAILED:
        managements = [Management.ADOPT_FAILED]
    for kind in kinds:
        for where in _ADOPTED if failure is FailureClass.ADOPT_FAILED else mapping.ALLOWED[kind, status]:
            for management in managements:
                it = with_failure(kind, failure, status, where, management, deleting=deleting)
                text = advised(it)
                assert named(text) or not named(FAILURES[failure].action), text
                assert not list(refusals(it, text)), (it.status, text)


@pytest.mark.parametrize(
    ("name", "value"), [("labels", {"rack": "r7"}), ("site", SITE.name), ("macs", ("52:54:00:00:00:01",))]
)
def test_a_detail_that_a_failed_onboarding_lacks_is_accepted_after_a_cancel(name: str, value: Any) -> None:
    job = failed(WorkflowKind.ONBOARDING, FailureClass.INVALID_CONFIG, W.FAILED_MANUAL_INTERVENTION)
    it = node(
        management=Management.MANAGEABLE,
        workflow=replace(job, stage=O.LOAD_SITE_CONFIG),
        site=None if name == "site" else SITE.name,
        bmc_address="https://10.0.0.1",
        bmc_credential="env:BMC",
    )
    wanted = intent(Action.SET, **{name: value})
    ((verdict, reason),) = answers(HANDLER.handle(replace(it, intents=(wanted,)), NOW))
    assert verdict == "rejected" and "cancel it" in reason
    for step in (intent(Action.CANCEL), wanted, intent(Action.ONBOARD, mode="deploy")):
        decision = HANDLER.handle(replace(it, intents=(step,)), NOW)
        ((verdict, reason),) = answers(decision)
        assert verdict == "accepted", (step.action, reason)
        it = moved(decision)
        if it.workflow is not None and it.workflow.status is W.CANCELLED:
            it = replace(it, workflow=None)  # as the next run loads the node


CAUSES_WITH_A_WORKFLOW = {
    QuarantineCause.DRAIN_FAILED: FailureClass.TASK_FAILED,
    QuarantineCause.FROZEN: FailureClass.OPERATOR_REQUEST,
    QuarantineCause.DECOMMISSION_FAILED: FailureClass.UPSTREAM_ERROR,
}


OF_SERVICE = {*CAUSES_WITH_A_WORKFLOW, QuarantineCause.CLEANUP_VALIDATION_FAILED}


@pytest.mark.parametrize("not_scrubbed", [False, True], ids=["clean", "not scrubbed"])
@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("served", [False, True], ids=["never in service", "was in service"])
@pytest.mark.parametrize("cause", QuarantineCause)
def test_an_intent_advised_for_a_quarantine_is_accepted_after_its_workflow_has_ended(
    cause: QuarantineCause, served: bool, agentless: bool, not_scrubbed: bool
) -> None:
    if not served and (not_scrubbed or cause in OF_SERVICE):
        pytest.skip("no node gets there")
    it = node(
        N.QUARANTINED,
        quarantine=Quarantine(cause, "it"),
        ever_onboarded=served,
        ever_active=served,
        agentless=agentless,
        agent=None if agentless else agent(),
        not_scrubbed=not_scrubbed,
    )
    if agentless:
        it = replace(
            it, bmc_address="https://10.0.0.1", bmc_credential="env:BMC", bmc=Bmc(power=PowerState.ON, power_at=NOW)
        )
    failure = CAUSES_WITH_A_WORKFLOW.get(cause, FailureClass.STATE_DISAGREEMENT)
    kind = WorkflowKind.DECOMMISSION if served else WorkflowKind.ONBOARDING
    text = advised(it, replace(failed(kind, failure, W.CANCELLED)))
    assert not list(refusals(it, text)), text


@pytest.mark.parametrize("cause", CAUSES_WITH_A_WORKFLOW)
def test_an_intent_advised_for_a_quarantine_is_accepted_while_its_workflow_waits(cause: QuarantineCause) -> None:
    job = decommission(
        D.DRAIN_NODE,
        W.FAILED_MANUAL_INTERVENTION,
        mode=DecommissionMode.SOFT_RESET,
        failure_class=CAUSES_WITH_A_WORKFLOW[cause],
    )
    it = node(N.QUARANTINED, quarantine=Quarantine(cause, "it"), workflow=job, agent=agent())
    assert named(text := advised(it)) and not list(refusals(it, text)), text


@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("status", [N.DRAINING, N.REMOVING])
def test_an_intent_advised_for_a_node_without_its_decommission_is_accepted(status: N, agentless: bool) -> None:
    it = node(status, agentless=agentless, agent=None if agentless else agent())
    text = advised(it)
    first, _, _ = text.partition("; to stop that")  # that cancel is for the workflow that resume makes
    assert named(first) == [Action.RESUME] and not list(refusals(it, first)), text


@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("status", [N.ENROLLING, N.QUARANTINED, N.ACTIVE, N.OFFLINE, N.RETIRED])
def test_an_intent_advised_for_several_nodes_with_one_machine_is_accepted(status: N, agentless: bool) -> None:
    bmc = Bmc(serial="SN-1", power=PowerState.ON, power_at=NOW)
    it = with_bmc(Management.MANAGEABLE, bmc, status=status, agentless=agentless, same_machine=("gpu-2",))
    text = advised(it)
    assert Action.CLEAR_BMC in named(text) and not list(refusals(it, text)), text


@pytest.mark.parametrize("management", [Management.ENROLL, Management.MANAGEABLE])
@pytest.mark.parametrize("failure", BmcFailure)
def test_an_intent_advised_for_a_failure_of_the_bmc_is_accepted(failure: BmcFailure, management: Management) -> None:
    bmc = Bmc(serial="SN-1", failure=failure, last_error="it")
    it = with_bmc(management, bmc, status=N.ACTIVE, agent=agent())
    text = advised(it)
    assert BMC_ADVICE[failure] in text and not list(refusals(it, text)), text


@pytest.mark.parametrize("management", [Management.ERROR, Management.ADOPT_FAILED])
def test_an_intent_advised_for_a_management_state_is_accepted(management: Management) -> None:
    it = node(N.ENROLLING, management=management)
    if management is Management.ADOPT_FAILED:
        it = with_bmc(management, Bmc(serial="SN-1"))
    assert named(text := advised(it)) and not list(refusals(it, text)), text


def test_the_intent_advised_for_an_operators_quarantine_of_an_onboarding_is_accepted() -> None:
    job = failed(WorkflowKind.ONBOARDING, FailureClass.OPERATOR_REQUEST, W.FAILED_MANUAL_INTERVENTION)
    it = node(N.QUARANTINED, quarantine=Quarantine(QuarantineCause.OPERATOR, "it"), workflow=job, agent=agent())
    text = advised(it)
    assert Action.RESUME in named(text) and not list(refusals(it, text)), text
    assert text.endswith("; when the onboarding completes, the node's quarantine ends")
    text = advised(replace(it, status=N.ENROLLING, quarantine=None))
    assert Action.RESUME in named(text) and "quarantine" not in text


def test_used_up_attempts_are_not_reported_as_a_freeze_by_an_operator() -> None:
    job = decommission(D.FORCE_RELEASE_ALLOCATIONS, stop_requested="failed", mode=DecommissionMode.SOFT_RESET)
    decision = HANDLER.handle(node(N.OFFLINE, workflow=job, agent=agent()), NOW)
    to: Node = decision.to  # type: ignore[union-attr]
    assert to.quarantine is not None and to.quarantine.cause is QuarantineCause.DECOMMISSION_FAILED
    text = advised(replace(to, workflow=replace(job, status=W.FAILED_MANUAL_INTERVENTION, failure_class=None)))
    assert "operator froze" not in text
