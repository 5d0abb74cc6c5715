"""Chooses the advice about a failed workflow and about a quarantine: by the mode, and by what farrier observed.

The failure class alone does not decide. For example, a machine that another user owns gets the same advice whatever
failed, and this advice asks for its user first. Pure functions of a `views.NodeDetail`, used by `advice`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec.structs import replace

from farrier.model.advice import diagnosis
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.recommended import Advice, Recommended, submit
from farrier.model.intents.actions import Action
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine import expected
from farrier.model.node import conditions, failures
from farrier.model.node.conditions import Condition, Effect, Source
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import (
    FAILED,
    CleaningBy,
    DecommissionMode,
    NodeStatus,
    OnboardingMode,
    WorkflowKind,
    WorkflowStatus,
)
from farrier.model.node.stages import DecommissionStage
from farrier.model.views.nodes import MaasView, NodeDetail

ONBOARD = (
    Recommended(Action.ONBOARD, {"mode": "adopt"}, when="to keep the system that the machine runs"),
    Recommended(Action.ONBOARD, {"mode": "deploy"}, when="to install the machine"),
    Recommended(Action.ONBOARD, {"mode": "manual"}, when="if a person installs the machine"),
)
"""The modes of an onboarding, of which an operator chooses one."""

# Failures that the state or the owner of the machine in MAAS explains.
_BY_THE_MACHINE = frozenset(
    {
        FailureClass.STATE_DISAGREEMENT,
        FailureClass.MACHINE_DELETED_UPSTREAM,
        FailureClass.UPSTREAM_REFUSED,
        FailureClass.UNDO_FAILED,
        FailureClass.COMMISSIONING_FAILED,
        FailureClass.DEPLOY_FAILED,
    }
)
_LEFT_ON = Advice(
    "make the node's BMC usable, or switch the machine off by hand",
    (
        Recommended(Action.RETRY_STAGE, when="when the BMC can be used"),
        Recommended(
            Action.DECOMMISSION,
            {"mode": DecommissionMode.FULL_DECOMMISSION.value, "leave_on": True},
            when="if the machine may stay on",
        ),
    ),
)
_CHECK_FAILED = Advice(
    "read which disk the check of the released machine names: replace a disk that keeps its data, and commission the "
    "machine in MAAS if its disks have changed",
    (
        Recommended(Action.RETRY_STAGE, when="to check it again; MAAS first erases disks that have data"),
        Recommended(Action.CANCEL, when="to leave the machine as it is"),
    ),
)


def of_failure(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[Advice]:
    """Yield advice about a failed workflow."""
    workflow = node.workflow
    if workflow is None or workflow.status not in FAILED:
        return
    failure = workflow.failure_class
    if node.deleting:
        yield Advice(
            f"fix the cause of the failure {failure}",
            (Recommended(Action.RESUME), Recommended(Action.CANCEL, when="to stop the deletion")),
        )
    if failure in _BY_THE_MACHINE:
        yield from _of_machine(node, now, patience)
    if failure == FailureClass.POWER_FAILED and workflow.stage == DecommissionStage.REMOVE_GPUAAS_NODE_RECORD:
        yield _LEFT_ON
    if failure == FailureClass.VALIDATION_FAILED and workflow.cleaned_by == CleaningBy.REGION:
        yield _CHECK_FAILED
    known = failures.FAILURES.get(failure or "")
    if known is not None:  # a newer release may have further classes
        yield _with_the_end(node, known.advice)
    elif workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION:
        yield Advice(
            "read the detail of the failure, and fix its cause",
            submit(Action.RESUME, Action.RESTART_CLEAN, Action.CANCEL),
        )


def _with_the_end(node: NodeDetail, advice: Advice) -> Advice:
    """A resumed onboarding does not lift the hold of the operator who stopped it."""
    workflow = node.workflow
    held = any(each.source == Source.OPERATOR for each in node.conditions)
    if not held or workflow is None or workflow.kind != WorkflowKind.ONBOARDING:
        return advice
    return replace(advice, todo=f"{advice.todo}; the onboarding does not complete before the node is released")


def _of_machine(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[Advice]:
    """Yield advice about the state and the owner of the machine, as a fresh reading shows them."""
    workflow, seen = node.workflow, diagnosis.fresh_reading(node, now, patience)
    if seen is None or workflow is None:
        return
    if diagnosis.is_foreign(node, seen):
        yield Advice(
            _whose(seen),
            (
                Recommended(Action.RETRY_STAGE, when="when farrier's user owns the machine"),
                Recommended(Action.CANCEL, when="to leave the machine as it is"),
            ),
        )
    elif seen.state == MaasStatus.BROKEN:
        yield Advice(
            f"machine {seen.system_id} is marked broken in MAAS: repair it, and mark it as fixed there",
            submit(Action.RETRY_STAGE),
        )
    elif seen.state == MaasStatus.ABSENT:
        yield replace(
            failures.FAILURES[FailureClass.MACHINE_DELETED_UPSTREAM].advice,
            todo=f"find out who deleted machine {seen.system_id} in MAAS",
        )
    elif workflow.mode == OnboardingMode.ADOPT and seen.state != MaasStatus.DEPLOYED:
        yield Advice(
            f"find out why machine {seen.system_id} is {_stands(seen)} in MAAS: only a deployed machine can be adopted",
            (
                Recommended(Action.RETRY_STAGE, when="when it is deployed"),
                Recommended(Action.CANCEL, when="to leave the machine as it is"),
            ),
        )


def _whose(seen: MaasView) -> str:
    owner = (seen.owner or "")[: expected.LONGEST_OWNER]
    return (
        f"machine {seen.system_id} may be in use: it is {_stands(seen)} in MAAS, and user {owner!r} owns it; ask this "
        "user, and check that the node's MAC and BMC addresses belong to this machine"
    )


def _stands(seen: MaasView) -> str:
    return f"{seen.state}" + (f" ({seen.status_name})" if seen.status_name else "")


def of_quarantine(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[Advice]:
    """Yield advice about a quarantine. While a workflow continues, there is no advice, because the workflow either ends
    the quarantine or fails."""
    if node.status != NodeStatus.QUARANTINED or diagnosis.goes_on(node):
        return
    if node.workflow is None:
        if not node.ever_onboarded:
            yield Advice(
                f"{_failed_before(node)}fix the cause of the node's quarantine", (*ONBOARD, *submit(Action.DELETE))
            )
            return
        yield from _without_a_workflow(node, now, patience)
    yield from of_conditions(conditions.quarantining(node.conditions))


def _without_a_workflow(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[Advice]:
    """Yield advice about conditions that a workflow would end. Without a live workflow, an operator must take the node
    out of service or release it."""
    standing = conditions.quarantining(node.conditions)
    if conditions.has_source(standing, Source.REGION):
        yield from _of_drift(node, now, patience)
    stopped = next((each for each in standing if each.source == Source.WORKFLOW), None)
    if stopped is not None:
        by_name = Recommended(Action.RELEASE, {"key": stopped.name}, ("reason",))
        yield Advice("fix the cause of the node's quarantine", (by_name, failures.DRAIN))


def of_conditions(standing: Iterable[Condition]) -> Iterator[Advice]:
    """Yield the advice about these conditions. An operator's hold is released by its key."""
    for each in standing:
        advice = failures.CONDITION_ADVICE.get(conditions.known_name(each.source, each.id))
        if advice is None:  # a source of a newer release
            continue
        if each.source == Source.OPERATOR:
            by_key = (Recommended(Action.RELEASE, {"key": each.id}), failures.DRAIN)
            advice = Advice(advice.todo, by_key)
        elif each.source.startswith(conditions.MONITOR) and each.effect is Effect.QUARANTINE:
            gone = Recommended(Action.RELEASE, {"key": each.name}, ("reason",), when="if it no longer watches the node")
            advice = Advice(advice.todo, (gone,))
        yield advice


def _failed_before(node: NodeDetail) -> str:
    last = node.last_workflow
    failed = conditions.find(node.conditions, Source.WORKFLOW, conditions.ONBOARDING_FAILED)
    if last is None or last.failure_class is None or failed is None:
        return ""
    return f"the node's onboarding failed with {last.failure_class}: "


def _of_drift(node: NodeDetail, now: datetime, patience: Patience) -> Iterator[Advice]:
    """Yield advice about a quarantine because of the state in MAAS, by the state that MAAS reports now."""
    seen = diagnosis.fresh_reading(node, now, patience)
    if seen is None:
        return
    if diagnosis.is_foreign(node, seen):
        yield Advice(_whose(seen), (failures.DRAIN,))
    elif seen.state == MaasStatus.ABSENT:
        yield failures.CONDITION_ADVICE["region/machine_deleted"]
    elif seen.state in expected.IN_SERVICE:
        standing = conditions.quarantining(node.conditions)
        if conditions.without_source(standing, Source.REGION) or not diagnosis.is_ours(node, seen):
            return
        yield Advice(
            wait="MAAS reports the machine as deployed again; farrier returns the node to service when a second "
            "reading confirms this and the node is healthy"
        )
    else:
        yield Advice(
            f"machine {seen.system_id} is {_stands(seen)} in MAAS: find out who changed it, and who uses it now; when "
            "MAAS reports it as deployed, farrier returns the node to service",
            (failures.DRAIN,),
        )
