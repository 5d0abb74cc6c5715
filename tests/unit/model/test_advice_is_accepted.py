"""The node accepts every intent that an advice or a refusal recommends, and no advice can harm a machine that may be in
use; a refusal recommends what may harm it only if the refused intent may, too.

The real handler answers each intent, in the states that an exploration of the model reaches, and for every failure,
quarantine, mode and state of the machine in MAAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.controller.dry_runs import foresee
from farrier.handlers.node.changes import with_workflow
from farrier.handlers.node.handler import RESPONSES, NodeHandler
from farrier.handlers.node.intents import dispatch
from farrier.handlers.node.intents.reply import Reject
from farrier.handlers.node.kind import NODE_KIND
from farrier.model.advice import recommended
from farrier.model.advice.explanation import Why, candidates, explain
from farrier.model.advice.recommended import Recommended
from farrier.model.intents import actions
from farrier.model.intents.actions import Action
from farrier.model.intents.params import PowerRequest
from farrier.model.intents.preview import PreviewVerdict
from farrier.model.loop.outcome import Deleted, DoNothing, EndsBy, Record, Step, describe
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.node import edges
from farrier.model.node.conditions import (
    AGENT_ELSEWHERE,
    AGENT_KEY,
    ANOTHER_MACHINE,
    BMC_HEALTH,
    DECOMMISSION_FAILED,
    DRAIN_FAILED,
    ENDS_WITH_A_WORKFLOW,
    ENROLMENT,
    FROZEN,
    KNOWN,
    NOT_SCRUBBED,
    ONBOARDING_FAILED,
    VALIDATION_FAILED,
    Condition,
    Effect,
    Known,
    Source,
    find,
    stated,
)
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import FAILED, CleaningBy, DecommissionMode, Mode, OnboardingMode, WorkflowKind
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Bmc, Decommission, Node, Onboarding, WorkflowOptions
from farrier.model.node.stages import BY_REGION, PATHS
from farrier.model.node.stages import DecommissionStage as D
from tests.support import exploration, shown
from tests.support.exploration import Place
from tests.support.nodes import (
    NOW,
    agent,
    answers,
    decommission,
    hold,
    intent,
    moved,
    node,
    onboarding,
    unclean,
    with_bmc,
)
from tests.support.played_region import OURS, SOMEBODY, SYSTEM_ID, Shown, seen
from tests.support.stages import SITE

HANDLER = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
# Values for the parameters that only an operator knows.
FILLED: dict[str, Any] = {
    "address": "https://10.0.0.2",
    "credential": "env:OTHER",
    "reason": "an operator knows why",
    "mode": "manual",
    "macs": ["52:54:00:00:00:01"],
    "power": PowerRequest.ON,
}
UNUSED = ("ready", "new", "absent")


def verdict(
    it: Node, intent_of: Recommended, now: datetime, handler: NodeHandler = HANDLER
) -> tuple[PreviewVerdict, str]:
    """The answer of the real handler to a recommended intent."""
    params = dict(intent_of.params) | {name: FILLED[name] for name in intent_of.fill}
    asked = intent(intent_of.action, **params)
    told = foresee(NODE_KIND, handler, replace(it, intents=(asked,)), asked.id, now)
    return told.verdict, told.reason


def outcome_of(it: Node, now: datetime, handler: NodeHandler) -> Record:
    decision = handler.handle(replace(it, intents=()), now)
    return Record("do_nothing", "", "x.py:1") if isinstance(decision, Step) else describe(decision)


def advised(it: Node, now: datetime = NOW, handler: NodeHandler = HANDLER) -> Why:
    """What `node why` shows if no controller answers."""
    return explain(shown.detail(it, now, outcome=outcome_of(it, now, handler)), now, Limits())


def refused(it: Node, now: datetime = NOW, handler: NodeHandler = HANDLER) -> Iterator[str]:
    """Why the advice about the node is wrong."""
    said = advised(it, now, handler)
    for each in said.recommended:
        told, reason = verdict(it, each, now, handler)
        if told is PreviewVerdict.REJECTED:
            yield f"{each} is refused: {reason}"
        in_use = it.maas is None or it.maas.state not in UNUSED or not it.maas.fresh(now, NodeConfig().observation_ttl)
        if in_use and actions.is_destructive(each.action, each.params, it.workflow):
            yield f"{each} could harm a machine that may be in use"
    waits = outcome_of(it, now, handler)
    if waits.ends_by == EndsBy.PERSON and said.ends_by is not EndsBy.PERSON:
        yield f"the handler waits for a person ({waits.reason}), but the advice is {said.advice!r}"


def wrong(found: list[Place], handler: NodeHandler) -> list[str]:
    faults: list[str] = []
    for place in found:
        if place.node.status is not N.DELETED:
            faults += (f"{place.node}: {why}" for why in refused(place.node, place.now, handler))
    return faults


ASKED = [*exploration.REQUESTS, *((Action.DECOMMISSION, {"mode": mode.value}) for mode in DecommissionMode)]
ASKED += [(Action.ONBOARD, {"mode": "deploy"}), (Action.SET_BMC, {"address": "https://10.0.0.9", "replace": True})]


def instead(place: Place) -> Iterator[tuple[Recommended, str]]:
    """What the refusals of all intents recommend, and why this is wrong."""
    it = place.node
    for action, params in ASKED:
        reply = dispatch.judged(it, intent(action, **params), place.now, exploration.POLICY, RESPONSES)
        for each in reply.instead if isinstance(reply, Reject) else ():
            told, reason = verdict(it, each, place.now, exploration.HANDLER)
            harms = actions.is_destructive(each.action, each.params, it.workflow)
            allowed = actions.is_destructive(action, params, it.workflow) or (it.maas and it.maas.state in UNUSED)
            why = f"it could harm the machine, and {action} could not" if harms and not allowed else ""
            yield each, f"{it}: {each}: {reason}" if told is PreviewVerdict.REJECTED else why


# --- every reachable state


@pytest.mark.timeout(1500)
@pytest.mark.xdist_group("walk")
@pytest.mark.parametrize("often", [True, pytest.param(False, marks=pytest.mark.full)])
def test_each_recommended_intent_is_accepted_in_every_reachable_state(often: bool) -> None:
    _, places = exploration.walk(often=often)
    assert wrong(places, exploration.HANDLER) == []
    found = [each for place in places if place.node.status is not N.DELETED for each in instead(place)]
    assert [why for _, why in found if why] == []
    assert {each.action for each, _ in found} >= {Action.DRAIN, Action.RELEASE, Action.SET_BMC, Action.DECOMMISSION}


# --- every failure, mode and state of the machine

MACHINES: dict[str, Shown | None] = {
    "ready": Shown(status=S.READY),
    "new": Shown(status=S.NEW),
    "ours": Shown(status=S.DEPLOYED, owner=OURS),
    "of another user": Shown(status=S.DEPLOYED, owner=SOMEBODY),
    "allocated to another user": Shown(status=S.ALLOCATED, owner=SOMEBODY),
    "broken": Shown(status=S.BROKEN, owner=OURS),
    "failed": Shown(status=S.FAILED_DEPLOYMENT, owner=OURS),
    "absent": None,
}
MODES: tuple[Mode, ...] = (*OnboardingMode, *DecommissionMode)


def with_failure(mode: Mode, failure: FailureClass, status: W, where: N, machine: str, *, deleting: bool) -> Node:
    fields: dict[str, Any] = {"mode": mode, "failure_class": failure, "failure_detail": "the detail"}
    job: Onboarding | Decommission
    if isinstance(mode, OnboardingMode):
        job = onboarding(status, stage=PATHS[mode][-1], **fields)
    else:
        job = decommission(PATHS[mode][-1], status, **fields)  # type: ignore[arg-type]
    observed = None if machine == "not read" else seen(MACHINES[machine], NOW, None)
    is_new = isinstance(job, Onboarding)
    return node(
        where,
        management=M.ADOPT_FAILED if failure is FailureClass.ADOPT_FAILED else M.MANAGEABLE,
        workflow=job,
        deleting=deleting,
        site=SITE.name,
        maas_id=SYSTEM_ID,
        maas=observed,
        bmc_address="https://10.0.0.1",
        bmc_credential="env:BMC",
        bmc=Bmc(serial="SN-1", system_path="/redfish/v1/Systems/1", power=PowerState.ON, power_at=NOW),
        agent=agent(),
        conditions=(stated(Source.WORKFLOW, ONBOARDING_FAILED, "it"),) if where is N.QUARANTINED else (),
        **({"ever_active": False, "ever_onboarded": False} if is_new else {}),
    )


@pytest.mark.parametrize("status", sorted(FAILED))
@pytest.mark.parametrize("failure", FailureClass)
def test_each_intent_recommended_for_a_failure_is_accepted(failure: FailureClass, status: W) -> None:
    if failure is FailureClass.ADOPT_FAILED and status is W.FAILED_RETRYABLE:
        return  # an adoption that failed waits for an operator
    modes = (OnboardingMode.ADOPT,) if failure is FailureClass.ADOPT_FAILED else MODES
    faults: list[str] = []
    for mode in modes:
        kind = WorkflowKind.ONBOARDING if isinstance(mode, OnboardingMode) else WorkflowKind.DECOMMISSION
        places = (N.ENROLLING, N.QUARANTINED) if mode is OnboardingMode.ADOPT else edges.FITTING[kind, status]
        for where in places:
            for machine in ("not read", *MACHINES):
                for deleting in (False, True):
                    it = with_failure(mode, failure, status, where, machine, deleting=deleting)
                    faults += (f"{mode} {where} {machine} {deleting}: {why}" for why in refused(it))
                    ends_by = advised(it).ends_by
                    assert ends_by is EndsBy.PERSON or (ends_by, status) == (EndsBy.ITSELF, W.FAILED_RETRYABLE)
    assert faults == []


@pytest.mark.parametrize("machine", ["of another user", "allocated to another user"])
@pytest.mark.parametrize("mode", [OnboardingMode.ADOPT, OnboardingMode.DEPLOY])
def test_an_adoption_of_another_users_machine_advises_to_ask_this_user_and_nothing_that_harms(
    mode: OnboardingMode, machine: str
) -> None:
    failure, status = FailureClass.STATE_DISAGREEMENT, W.FAILED_MANUAL_INTERVENTION
    said = advised(with_failure(mode, failure, status, N.ENROLLING, machine, deleting=False))
    assert "may be in use" in said.advice and repr(SOMEBODY) in said.advice
    assert "release" not in said.advice and "delete" not in said.advice and "wipe" not in said.advice
    assert {each.action for each in said.recommended} <= {Action.RETRY_STAGE, Action.CANCEL}


def test_the_advice_about_a_machine_that_is_marked_broken_is_to_repair_it() -> None:
    failure, status = FailureClass.COMMISSIONING_FAILED, W.FAILED_MANUAL_INTERVENTION
    said = advised(with_failure(OnboardingMode.DEPLOY, failure, status, N.ENROLLING, "broken", deleting=False))
    assert "marked broken" in said.advice and "commissioning" not in said.advice
    assert said.command == "farrier node retry-stage gpu-1"


@pytest.mark.parametrize("mode", BY_REGION)
def test_after_a_check_by_the_region_failed_the_advice_is_to_mend_the_disk_and_to_check_again(mode: Mode) -> None:
    failure, status = FailureClass.VALIDATION_FAILED, W.FAILED_MANUAL_INTERVENTION
    it = with_failure(mode, failure, status, N.RETIRED, "ready", deleting=False)
    it = with_workflow(it, stage=D.CLEANUP_STORAGE, options=WorkflowOptions(cleaned_by=CleaningBy.REGION))
    said = advised(it)
    assert "replace a disk that keeps its data" in said.advice
    assert {each.action for each in said.recommended} == {Action.RETRY_STAGE, Action.CANCEL} and list(refused(it)) == []


def test_the_observed_state_is_recommended_only_with_a_fresh_observation() -> None:
    failure, status = FailureClass.STATE_DISAGREEMENT, W.FAILED_MANUAL_INTERVENTION

    def actions_of(machine: str) -> set[Action]:
        it = with_failure(OnboardingMode.DEPLOY, failure, status, N.ENROLLING, machine, deleting=False)
        return {each.action for each in advised(it).recommended}

    assert Action.ADOPT_OBSERVED_STATE in actions_of("ready") & actions_of("ours")
    assert Action.ADOPT_OBSERVED_STATE not in actions_of("not read") | actions_of("broken")


def test_a_controllers_answer_decides_whether_an_intent_is_recommended() -> None:
    failure, status = FailureClass.INVALID_CONFIG, W.FAILED_MANUAL_INTERVENTION
    it = shown.detail(with_failure(OnboardingMode.DEPLOY, failure, status, N.ENROLLING, "ready", deleting=False), NOW)
    assert Action.RETRY_STAGE in {each.action for each in candidates(it, NOW, Limits())}
    said = explain(it, NOW, Limits(), accepts=lambda each: each.action is not Action.RETRY_STAGE)
    assert said.recommended == () and said.command is None and said.advice == "correct the site's configuration"


# --- quarantines, the BMC, other states

CONDITIONS = (
    None,
    hold(),
    hold("rma"),
    unclean(NOT_SCRUBBED),
    unclean(VALIDATION_FAILED),
    stated(Source.IDENTITY, ANOTHER_MACHINE),
    stated(Source.IDENTITY, AGENT_ELSEWHERE),
    stated(Source.IDENTITY, ENROLMENT, requested=Effect.NOTE),
    stated(Source.IDENTITY, AGENT_KEY, requested=Effect.NOTE),
    stated("monitor:dcgm", "hot"),
    stated(Source.BMC, BMC_HEALTH, requested=Effect.NOTE),
)
WITH_A_WORKFLOW = [known for known in KNOWN if known.source in ENDS_WITH_A_WORKFLOW]
OF_SERVICE = {DRAIN_FAILED, FROZEN, DECOMMISSION_FAILED}
MISMATCH = BmcFailure.IDENTITY_MISMATCH


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda it: it.name if it else "no condition")
@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("served", [False, True], ids=["never in service", "was in service"])
@pytest.mark.parametrize("cause", [None, *WITH_A_WORKFLOW], ids=lambda it: it.name if it else "no cause")
def test_each_intent_recommended_for_a_quarantine_is_accepted(
    cause: Known | None, served: bool, agentless: bool, condition: Condition | None
) -> None:
    cleaned = condition is not None and condition.source == Source.CLEANING
    if agentless and condition is not None and condition.id == AGENT_ELSEWHERE:
        return  # only an agent reports where it runs
    if not served and (cleaned or (cause is not None and cause.id in OF_SERVICE)):
        return  # no node gets there
    is_another = condition is not None and condition.id == ANOTHER_MACHINE
    is_elsewhere = condition is not None and condition.id == AGENT_ELSEWHERE
    faults: list[str] = []
    for machine in (None, *MACHINES):
        it = node(
            N.QUARANTINED,
            management=M.MANAGEABLE,
            site=SITE.name if machine else None,
            maas_id=SYSTEM_ID if machine else None,
            maas=seen(MACHINES[machine], NOW, None) if machine else None,
            ever_onboarded=served,
            ever_active=served,
            agentless=agentless,
            agent=None if agentless else agent(another="SN-9" if is_elsewhere else None),
            conditions=(
                *(() if cause is None else (stated(cause.source, cause.id, "it"),)),
                *(() if condition is None else (condition,)),
            ),
            bmc_address="https://10.0.0.1",
            bmc_credential="env:BMC",
            # The last read of the BMC shows the fact that the condition states.
            bmc=Bmc(serial="SN-1", power=PowerState.ON, power_at=NOW, sync_failure=MISMATCH if is_another else None),
        )
        faults += (f"{machine}: {why}" for why in refused(it))
    assert faults == []


@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("status", [N.DRAINING, N.REMOVING])
def test_an_intent_recommended_for_a_node_without_its_decommission_is_accepted(status: N, agentless: bool) -> None:
    it = node(status, agentless=agentless, agent=None if agentless else agent())
    assert [each.action for each in advised(it).recommended] == [Action.RESUME] and not list(refused(it))


@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("status", [N.ENROLLING, N.QUARANTINED, N.ACTIVE, N.OFFLINE, N.RETIRED])
def test_an_intent_recommended_for_several_nodes_with_one_machine_is_accepted(status: N, agentless: bool) -> None:
    bmc = Bmc(serial="SN-1", power=PowerState.ON, power_at=NOW)
    it = with_bmc(M.MANAGEABLE, bmc, status=status, agentless=agentless, same_machine=("gpu-2",))
    assert advised(it).ends_by is EndsBy.PERSON and not list(refused(it))


@pytest.mark.parametrize("management", [M.ENROLL, M.MANAGEABLE])
@pytest.mark.parametrize("failure", BmcFailure)
def test_an_intent_recommended_for_a_failure_of_the_bmc_is_accepted(failure: BmcFailure, management: M) -> None:
    bmc = Bmc(serial="SN-1", failure=failure, last_error="it")
    it = with_bmc(management, bmc, status=N.ACTIVE, agent=agent())
    assert advised(it).ends_by is EndsBy.PERSON and not list(refused(it))


@pytest.mark.parametrize("status", [*sorted(actions.IN_USE), N.RETIRED])
def test_after_a_swap_of_the_machine_the_advice_names_its_replacement_also_in_service(status: N) -> None:
    bmc = Bmc(serial="SN-1", failure=MISMATCH, last_error="the BMC reports serial SN-2", verified_at=NOW)
    it = with_bmc(M.ENROLL, bmc, status=status, agent=agent(), ever_onboarded=True)
    if status is N.DRAINING:
        job = decommission(D.DRAIN_NODE, W.FAILED_MANUAL_INTERVENTION, failure_class=FailureClass.IDENTITY_MISMATCH)
        it = replace(it, workflow=job)
    forced = {"force": True} if status in actions.IN_USE else {}
    swapped = Recommended(Action.SET_BMC, {"replace": True, **forced}, when="if the machine was replaced")
    assert swapped in advised(it).recommended and not list(refused(it))
    assert not actions.is_destructive(swapped.action, swapped.params, it.workflow)


@pytest.mark.parametrize("management", [M.ERROR, M.ADOPT_FAILED])
def test_an_intent_recommended_for_a_management_state_is_accepted(management: M) -> None:
    it = node(N.ENROLLING, management=management, ever_onboarded=False, ever_active=False)
    if management is M.ADOPT_FAILED:
        it = replace(with_bmc(management, Bmc(serial="SN-1")), ever_onboarded=False, ever_active=False)
    assert advised(it).recommended and not list(refused(it))


def test_the_advice_about_an_operators_hold_of_an_onboarding_says_that_it_needs_a_release() -> None:
    job = onboarding(W.FAILED_MANUAL_INTERVENTION, failure_class=FailureClass.OPERATOR_REQUEST, failure_detail="fans")
    it = node(N.QUARANTINED, conditions=(hold(reason="fans"),), workflow=job, agent=agent())
    said = advised(it)
    assert Action.RESUME in {each.action for each in said.recommended} and not list(refused(it))
    assert "the onboarding does not complete before the node is released" in said.advice
    assert "released" not in advised(replace(it, status=N.ENROLLING, conditions=())).advice


def test_used_up_attempts_are_not_reported_as_a_freeze_by_an_operator() -> None:
    job = decommission(D.FORCE_RELEASE_ALLOCATIONS, stop_requested="failed", mode=DecommissionMode.SOFT_RESET)
    decision = HANDLER.handle(node(N.OFFLINE, workflow=job, agent=agent()), NOW)
    to: Node = decision.to  # type: ignore[union-attr]
    assert find(to.conditions, Source.WORKFLOW, DECOMMISSION_FAILED) is not None
    said = advised(replace(to, workflow=replace(job, status=W.FAILED_MANUAL_INTERVENTION, failure_class=None)))
    assert "operator froze" not in said.advice


@pytest.mark.parametrize(
    ("name", "value"), [("labels", {"rack": "r7"}), ("site", SITE.name), ("macs", ("52:54:00:00:00:01",))]
)
def test_a_detail_that_a_failed_onboarding_lacks_is_accepted_after_a_cancel(name: str, value: Any) -> None:
    job = onboarding(
        W.FAILED_MANUAL_INTERVENTION,
        mode=OnboardingMode.DEPLOY,
        stage=PATHS[OnboardingMode.DEPLOY][0],
        failure_class=FailureClass.INVALID_CONFIG,
        failure_detail="the detail",
    )
    it = node(
        management=M.MANAGEABLE,
        workflow=job,
        site=None if name == "site" else SITE.name,
        bmc_address="https://10.0.0.1",
        bmc_credential="env:BMC",
    )
    wanted = intent(Action.SET, **{name: value})
    ((told, reason),) = answers(HANDLER.handle(replace(it, intents=(wanted,)), NOW))
    assert told == "rejected" and "after it has ended" in reason
    for step in (intent(Action.CANCEL), wanted, intent(Action.ONBOARD, mode="deploy")):
        decision = HANDLER.handle(replace(it, intents=(step,)), NOW)
        ((told, reason),) = answers(decision)
        assert told == "accepted", (step.action, reason)
        it = moved(decision)
        if it.workflow is not None and it.workflow.status is W.CANCELLED:
            it = replace(it, workflow=None)  # as the next run loads the node


# --- the three waits


def drifting(machine: str) -> Node:
    return node(N.ACTIVE, site=SITE.name, maas_id=SYSTEM_ID, agent=agent(), maas=seen(MACHINES[machine], NOW, None))


def test_a_contradiction_that_no_second_reading_has_confirmed_is_shown_as_such() -> None:
    it = drifting("ready")
    said = advised(it)
    assert said.ends_by is EndsBy.CONFIRMATION and "ready" in said.reason and "second reading" in said.advice
    assert not said.recommended
    agreed = advised(drifting("ours"))
    assert (agreed.ends_by, agreed.advice) == (None, "no action is needed")


def test_a_wait_that_ends_by_itself_needs_no_action() -> None:
    job = decommission(D.DRAIN_NODE, mode=DecommissionMode.SOFT_RESET)
    outcome = Record("wait", "waits for an agent", "x.py:1", "", EndsBy.ITSELF)
    said = explain(shown.detail(node(N.DRAINING, workflow=job, agent=agent()), NOW, outcome=outcome), NOW, Limits())
    assert said.ends_by is EndsBy.ITSELF and not said.recommended and said.advice.startswith("wait: ")


def test_a_failure_that_is_retried_ends_by_itself_though_an_operator_may_hasten_it() -> None:
    it = with_failure(
        OnboardingMode.DEPLOY, FailureClass.TIMEOUT, W.FAILED_RETRYABLE, N.ENROLLING, "not read", deleting=False
    )
    outcome = Record("wait", "farrier retries the stage", "x.py:1", "", EndsBy.ITSELF)
    said = explain(shown.detail(it, NOW, outcome=outcome), NOW, Limits())
    assert said.ends_by is EndsBy.ITSELF and said.recommended


def test_a_wait_that_needs_a_person_is_never_said_to_need_no_action() -> None:
    outcome = Record("wait", "segment storage has no free address", "x.py:1", "", EndsBy.PERSON)
    job = onboarding(mode=OnboardingMode.DEPLOY, stage=PATHS[OnboardingMode.DEPLOY][6])
    said = explain(shown.detail(node(workflow=job), NOW, outcome=outcome), NOW, Limits())
    assert said.ends_by is EndsBy.PERSON and said.advice.startswith("correct what the reason names")


def test_no_decision_of_an_idle_node_waits_for_a_person() -> None:
    decision = HANDLER.handle(node(N.ACTIVE, agent=agent()), NOW)
    assert isinstance(decision, DoNothing) and not isinstance(decision, Deleted)


def test_a_command_can_be_pasted() -> None:
    forced = recommended.Advice(intents=(Recommended(Action.DECOMMISSION, {"mode": "soft_reset", "force": True}),))
    assert recommended.command(forced, "gpu-1") == "farrier node decommission gpu-1 --mode soft_reset --force"
    open_ = recommended.Advice(intents=(Recommended(Action.SET_BMC, fill=("address",)),))
    assert recommended.command(open_, "gpu-1") is None
    assert recommended.text(open_) == "submit set_bmc with an address"
