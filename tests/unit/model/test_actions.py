"""Intents that are accepted, deferred or refused, and the texts of refusals."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from farrier.model.intents import actions, workflow_condition
from farrier.model.intents.acceptance import Allowed, Later, Refused
from farrier.model.intents.actions import ACTIONS, Action, ActionGroup
from farrier.model.node import details, edges, layers
from farrier.model.node.layers import (
    LIVE,
    TRANSIENT,
    DecommissionMode,
    Management,
    Mode,
    NodeStatus,
    OnboardingMode,
    WorkflowKind,
    WorkflowStatus,
)


class Workflow(msgspec.Struct, frozen=True):
    """The live workflow of a node under test."""

    kind: WorkflowKind
    status: WorkflowStatus
    mode: Mode | None
    id: int = 17


def onboarding(status: WorkflowStatus, mode: OnboardingMode | None = OnboardingMode.DEPLOY) -> Workflow:
    return Workflow(WorkflowKind.ONBOARDING, status, mode)


def decommission(status: WorkflowStatus, mode: DecommissionMode = DecommissionMode.FULL_DECOMMISSION) -> Workflow:
    return Workflow(WorkflowKind.DECOMMISSION, status, mode)


MODELESS = onboarding(WorkflowStatus.PENDING, None)
EVERY_LIVE = [
    None,
    MODELESS,
    *(onboarding(status, mode) for status in WorkflowStatus if status in LIVE for mode in OnboardingMode),
    *(decommission(status, mode) for status in WorkflowStatus if status in LIVE for mode in DecommissionMode),
]


def accepted_in(action: Action) -> set[str]:
    """The node statuses that accept the action if everything else allows it."""
    return {
        str(status)
        for status, management, live in itertools.product(NodeStatus, Management, EVERY_LIVE)
        if actions.check(action, status, management, live) == Allowed()
    }


def test_every_action_has_a_row_in_order_and_belongs_to_its_group() -> None:
    assert list(ACTIONS) == list(Action)
    groups = {group: [str(a) for a, spec in ACTIONS.items() if spec.group is group] for group in ActionGroup}
    assert groups == {
        ActionGroup.BMC: ["set_bmc", "clear_bmc", "manage", "adopt", "set_power"],
        ActionGroup.LIFECYCLE: [
            "onboard",
            "quarantine",
            "release",
            "drain",
            "reactivate",
            "remove",
            "delete",
            "decommission",
        ],
        ActionGroup.OPERATOR: [
            "retry_stage",
            "resume",
            "rerun",
            "restart_clean",
            "cancel",
            "adopt_observed_state",
            "mark_manual_intervention_required",
        ],
        ActionGroup.CONTROL: ["set", "pause", "unpause"],
    }


@pytest.mark.parametrize(
    ("action", "statuses"),
    [
        (Action.ADOPT, "bootstrap_issued enrolling quarantined"),
        (Action.ONBOARD, "bootstrap_issued enrolling quarantined retired"),
        (Action.QUARANTINE, "enrolling active offline quarantined"),
        (Action.REACTIVATE, "retired"),
        (Action.DELETE, "bootstrap_issued enrolling quarantined"),
    ],
)
def test_a_lifecycle_action_is_accepted_in_its_statuses_and_no_other(action: Action, statuses: str) -> None:
    assert accepted_in(action) == set(statuses.split())


@pytest.mark.parametrize("action", Action)
def test_a_deleted_node_accepts_nothing_and_every_action_is_accepted_somewhere(action: Action) -> None:
    statuses = accepted_in(action)
    assert statuses
    assert "deleted" not in statuses


@pytest.mark.parametrize("action", Action)
def test_every_combination_has_an_answer_and_a_refusal_names_the_action(action: Action) -> None:
    for status, management, live in itertools.product(NodeStatus, Management, EVERY_LIVE):
        answer = actions.check(action, status, management, live)
        if not isinstance(answer, Allowed):
            assert answer.reason.startswith(f"{action} "), answer


@pytest.mark.parametrize("action", Action)
def test_a_refusal_for_the_status_names_every_accepting_status(action: Action) -> None:
    spec = ACTIONS[action]
    for status in set(NodeStatus) - spec.accepted_in:
        answer = actions.check(action, status, Management.MANAGEABLE, None)
        assert isinstance(answer, Refused)
        assert all(name in answer.reason for name in spec.accepted_in)
        assert f"this node is {status}" in answer.reason


@pytest.mark.parametrize("action", Action)
def test_an_answer_is_deferred_only_in_a_transient_state(action: Action) -> None:
    for status, management, live in itertools.product(NodeStatus, Management, EVERY_LIVE):
        if isinstance(actions.check(action, status, management, live), Later):
            assert management in TRANSIENT
            later = [actions.check(action, status, m, live) for m in Management if m not in TRANSIENT]
            assert Allowed() in later


@pytest.mark.parametrize(
    ("action", "accepted"),
    [
        (Action.MANAGE, "enroll manageable adopt_failed"),
        (Action.ADOPT, "manageable adopt_failed"),
        (Action.SET_POWER, "manageable"),
        (Action.DELETE, "unmanaged enroll manageable adopt_failed error"),
        (Action.SET_BMC, " ".join(Management)),
        (Action.CLEAR_BMC, " ".join(Management)),
    ],
)
def test_actions_on_the_bmc_depend_on_the_management_state(action: Action, accepted: str) -> None:
    for management in Management:
        answer = actions.check(action, NodeStatus.ENROLLING, management, None)
        if management in accepted.split():
            assert answer == Allowed()
        elif management in TRANSIENT:
            assert isinstance(answer, Later)
        else:
            assert isinstance(answer, Refused)
            assert all(name in answer.reason for name in accepted.split())


BUSY = decommission(WorkflowStatus.RUNNING)


@pytest.mark.parametrize(
    ("action", "statuses"),
    [
        (Action.DRAIN, "active offline quarantined"),
        (Action.REMOVE, "retired"),
        (Action.DECOMMISSION, "active offline quarantined retired"),
    ],
)
def test_a_decommission_begins_in_its_statuses_and_raises_options_while_one_is_live(
    action: Action, statuses: str
) -> None:
    def accepted(status: NodeStatus, live: Workflow | None) -> bool:
        return actions.check(action, status, Management.MANAGEABLE, live) == Allowed()

    assert {status for status in NodeStatus if accepted(status, None)} == set(statuses.split())
    under_way = {"active", "offline", "quarantined", "draining", "retired", "removing"}
    assert {status for status in NodeStatus if accepted(status, BUSY)} == under_way
    for live in (onboarding(WorkflowStatus.RUNNING), decommission(WorkflowStatus.COMPENSATING)):
        assert not any(accepted(status, live) for status in NodeStatus), "no option is raised"


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (Action.REACTIVATE, NodeStatus.RETIRED),
        (Action.ONBOARD, NodeStatus.RETIRED),
        (Action.DELETE, NodeStatus.QUARANTINED),
        (Action.SET_POWER, NodeStatus.ACTIVE),
    ],
)
def test_a_live_workflow_that_prevents_an_action_is_named_with_its_id(action: Action, status: NodeStatus) -> None:
    assert actions.check(action, status, Management.MANAGEABLE, None) == Allowed()
    answer = actions.check(action, status, Management.MANAGEABLE, BUSY)
    assert isinstance(answer, Refused)
    assert "decommission 17 of this node is live (running, mode full_decommission)" in answer.reason


def test_onboard_gives_a_pending_onboarding_its_mode_but_only_once() -> None:
    begun = onboarding(WorkflowStatus.PENDING)
    where = (NodeStatus.ENROLLING, Management.UNMANAGED)
    assert actions.check(Action.ONBOARD, *where, MODELESS) == Allowed()
    assert isinstance(actions.check(Action.ONBOARD, *where, begun), Refused)


def test_adopt_resumes_a_failed_adoption_and_no_other_onboarding() -> None:
    waits = WorkflowStatus.FAILED_MANUAL_INTERVENTION
    where = (NodeStatus.ENROLLING, Management.ADOPT_FAILED)
    assert actions.check(Action.ADOPT, *where, onboarding(waits, OnboardingMode.ADOPT)) == Allowed()
    assert isinstance(actions.check(Action.ADOPT, *where, onboarding(waits)), Refused)


@pytest.mark.parametrize("live", EVERY_LIVE)
def test_set_power_is_refused_while_a_workflow_uses_maas(live: Workflow | None) -> None:
    maas = live is not None and live.mode not in (
        None,
        OnboardingMode.MANUAL,
        DecommissionMode.SOFT_RESET,
    )
    answer = actions.check(Action.SET_POWER, NodeStatus.ACTIVE, Management.MANAGEABLE, live)
    assert isinstance(answer, Refused) == maas


OPERATOR_EDGES = {
    Action.RETRY_STAGE: "running",
    Action.RESUME: "running",
    Action.RERUN: "running",
    Action.RESTART_CLEAN: "compensating",
    Action.ADOPT_OBSERVED_STATE: "reconciled",
    Action.MARK_MANUAL_INTERVENTION_REQUIRED: "failed_manual_intervention",
}


@pytest.mark.parametrize(("action", "target"), OPERATOR_EDGES.items())
@pytest.mark.parametrize("layer", [layers.Layer.ONBOARDING, layers.Layer.DECOMMISSION])
def test_an_operator_action_is_accepted_exactly_if_the_workflow_has_its_edge(
    action: Action, target: str, layer: layers.Layer
) -> None:
    # The begin of a workflow and a failed undo have the same targets, but no intent requests them.
    undone = set() if action is Action.MARK_MANUAL_INTERVENTION_REQUIRED else {WorkflowStatus.COMPENSATING}
    not_requested = {WorkflowStatus.PENDING} | undone
    sources = {source for source, to in edges.ALLOWED[layer] if to == target} - not_requested
    make = onboarding if layer is layers.Layer.ONBOARDING else decommission
    accepted = {
        str(status)
        for status in WorkflowStatus
        if status in LIVE
        and actions.check(action, NodeStatus.RETIRED, Management.MANAGEABLE, make(status)) == Allowed()
    }
    assert accepted == sources
    assert isinstance(actions.check(action, NodeStatus.RETIRED, Management.MANAGEABLE, None), Refused)


@pytest.mark.parametrize("live", EVERY_LIVE)
def test_cancel_needs_only_a_live_workflow(live: Workflow | None) -> None:
    answer = actions.check(Action.CANCEL, NodeStatus.ENROLLING, Management.ENROLL, live)
    assert (answer == Allowed()) == (live is not None)


@pytest.mark.parametrize("live", EVERY_LIVE)
@pytest.mark.parametrize("management", [Management.VERIFYING, Management.ADOPTING])
def test_cancel_is_always_accepted_while_a_bmc_is_verified_or_adopted(
    management: Management, live: Workflow | None
) -> None:
    for status in actions.UNDELETED:
        assert actions.check(Action.CANCEL, status, management, live) == Allowed()


@pytest.mark.parametrize("status", [NodeStatus.DRAINING, NodeStatus.REMOVING])
@pytest.mark.parametrize("live", EVERY_LIVE)
def test_resume_is_always_accepted_while_a_lifecycle_task_may_be_lost(
    status: NodeStatus, live: Workflow | None
) -> None:
    assert actions.check(Action.RESUME, status, Management.ERROR, live) == Allowed()


def test_the_interrupting_actions_are_those_of_the_model() -> None:
    assert {str(action) for action, spec in ACTIONS.items() if spec.interrupts} == {
        "cancel",
        "delete",
        "pause",
        "set_bmc",
        "clear_bmc",
    }


def test_versions_of_actions_are_in_range_and_adopt_set_pause_and_unpause_have_version_2() -> None:
    since = {str(action): spec.since for action, spec in ACTIONS.items()}
    assert set(since.values()) == set(range(actions.API_MIN, actions.API_MAX + 1))
    assert {action for action, version in since.items() if version == 2} == {"adopt", "set", "pause", "unpause"}


def test_a_pause_does_not_stop_cancel_delete_and_unpause() -> None:
    assert {"cancel", "delete", "unpause"} == actions.HONOURED_WHILE_PAUSED


def test_every_condition_on_the_workflow_is_used_and_fits_some_workflow() -> None:
    named = [
        value for value in vars(workflow_condition).values() if isinstance(value, workflow_condition.WorkflowCondition)
    ]
    destructive = (spec.destructive.live for spec in ACTIONS.values() if spec.destructive is not None)
    used = {
        *destructive,
        *(spec.condition for spec in ACTIONS.values()),
        *(detail.free_when for detail in details.DETAILS.values()),
    }
    assert {condition.text for condition in used} == {value.text for value in named}
    for value in named:
        assert any(value.fits(live) for live in EVERY_LIVE)
