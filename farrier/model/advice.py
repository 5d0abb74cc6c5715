"""Recommends what an operator should do about a resource. For a node, also recommends an intent to submit.

`why` and `resource_why` show the first piece of advice, because it is nearest to the cause. Module
`farrier.model.failures` has the advice for each failure class. This module never recommends an intent that the node
would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from farrier.errors import InternalError
from farrier.model import diagnosis, duration, failures, foreseen, sweeps
from farrier.model.acceptance import Allowed
from farrier.model.actions import Action
from farrier.model.clocks import Clock
from farrier.model.diagnosis import Patience
from farrier.model.edges import Layer
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.maas_region import RegionState
from farrier.model.management import Management
from farrier.model.resource_views import ResourceView
from farrier.model.status import NodeStatus
from farrier.model.views import NodeDetail
from farrier.model.workflow import FAILED, OnboardingMode, WorkflowKind, WorkflowStatus

# Of these actions, only the first continues a failed stage. The other two actions undo the workflow's work. After the
# undo, restart_clean starts the workflow again.
_WAYS_OUT = (Action.RETRY_STAGE, Action.RESTART_CLEAN, Action.CANCEL)
_WORKFLOWS = frozenset({Layer.ONBOARDING, Layer.DECOMMISSION})


# A live workflow may end a quarantine with one of these causes. Without a live workflow, an operator must take the node
# out of service or release it.
_ENDS_WITH_A_WORKFLOW = frozenset(
    {
        QuarantineCause.OPERATOR,
        QuarantineCause.FROZEN,
        QuarantineCause.DRAIN_FAILED,
        QuarantineCause.ONBOARDING_FAILED,
        QuarantineCause.DECOMMISSION_FAILED,
    }
)


# The intent that, with force, ends the task that a node in this status waits for.
_TASK_OF: Mapping[str, Action] = {NodeStatus.DRAINING: Action.DRAIN, NodeStatus.REMOVING: Action.REMOVE}

# Quarantines whose advice in `failures` recommends a decommission.
_ENDS_WITH_A_DECOMMISSION = frozenset(
    {
        QuarantineCause.OPERATOR,
        QuarantineCause.STATE_DISAGREEMENT,
        QuarantineCause.MACHINE_DELETED_UPSTREAM,
        QuarantineCause.CLEANUP_VALIDATION_FAILED,
    }
)


class Advice(msgspec.Struct, frozen=True):
    """A recommendation. `action` is the intent that carries out or completes the recommendation; None unless there is
    exactly one such intent."""

    text: str
    action: Action | None = None


def filter_runs(shown: NodeDetail | ResourceView, now: datetime, period: timedelta) -> Iterator[str]:
    """Return advice about the runs of a resource of any kind."""
    if sweeps.is_neglected(shown, now, period):
        yield (
            "no controller runs its handler: check that farrier run is up and uses this database; farrier "
            "controllers lists the controllers"
        )
    outcome = shown.outcome
    if outcome is not None and outcome.error and outcome.outcome == "wait":
        yield "fix the cause that the reason names; farrier then continues by itself"
    elif outcome is not None and outcome.error == InternalError.label:
        yield (
            f"search the log of controller {shown.controller} for handler.crashed and {shown.name}; its traceback "
            "names the cause"
        )
    elif outcome is not None and outcome.error:
        yield "fix the cause that the error of the last run names; farrier retries by itself"


def of_late_clock(clock: Clock, noun: str) -> str:
    """Return advice about a clock that is above its limit; `noun` is the resource, such as "node"."""
    return (
        f"{clock.layer} {clock.state} has lasted since {clock.since:%Y-%m-%d %H:%M:%S} UTC, "
        f"{duration.human(clock.above or timedelta(0))} above its limit: check what the {noun} waits for, and fix "
        "the cause"
    )


class Case(msgspec.Struct, frozen=True):
    """A node as views show it, and the values on which its advice depends. `late` lists the node's clocks that are
    above their limits, the worst first. `period` is the resync period of the controllers."""

    node: NodeDetail
    now: datetime
    late: Sequence[Clock]
    patience: Patience
    period: timedelta = sweeps.PERIOD


def of_node(case: Case) -> Advice:
    """Return the advice about the node."""
    found = next(_all(case), Advice("no action is needed"))
    if found.action is None or is_accepted(found.action, case.node):
        return found
    return Advice(found.text)


def _all(case: Case) -> Iterator[Advice]:
    node = case.node
    if diagnosis.is_deleted(node):
        return
    asked = diagnosis.unanswered(node)
    yield from map(Advice, filter_runs(node, case.now, case.period))
    if diagnosis.is_held(node):
        yield Advice("unpause the node when the work on it is done", Action.UNPAUSE)
    if diagnosis.is_unowned(node):
        forced = " with force (this node is agentless)" if node.agentless else ""
        yield Advice(
            f"submit resume{forced} to create the missing decommission; to stop that decommission, submit cancel",
            Action.RESUME,
        )
    yield from _of_failure(case)
    yield from _of_quarantine(node)
    if diagnosis.is_about_the_bmc(node):
        yield from map(Advice, _of_bmc(node))
    yield from map(Advice, _of_wait(case))
    yield from map(Advice, _of_bmc(node))
    if node.workflow is not None and node.workflow.mode is None:
        yield Advice("submit onboard with a mode: onboarding does not start by itself")
    yield from map(Advice, _by_state(node))
    if diagnosis.not_as_expected(node, case.now, case.patience) is not None:
        yield Advice(
            "find out who changed the machine in MAAS; correct the machine there, or decommission or remove the node"
        )
    yield from map(Advice, _of_region(case))
    yield from map(Advice, _of_clocks(node, case.late))
    for request in asked[:1]:
        yield Advice(f"wait: farrier answers intent {request.id} when the cause of the delay is gone")


def _of_failure(case: Case) -> Iterator[Advice]:
    workflow = case.node.workflow
    if workflow is None or workflow.status not in FAILED:
        return
    if workflow.failure_class in failures.BY_THE_REGION:
        yield from map(Advice, _of_region(case))
    if case.node.deleting:
        yield Advice(f"fix {workflow.failure_class}, then resume; or cancel the deletion")
    # An operator who quarantined the node may not expect that a resumed onboarding returns it to service.
    held = workflow.kind == WorkflowKind.ONBOARDING and case.node.status == NodeStatus.QUARANTINED
    ends = held and workflow.failure_class == FailureClass.OPERATOR_REQUEST
    then = "; when the onboarding completes, the node's quarantine ends" if ends else ""
    known = failures.FAILURES.get(workflow.failure_class or "")
    if known is not None:  # a newer release may have further classes
        yield Advice(f"{known.action}{then}", known.intent)


def _of_quarantine(node: NodeDetail) -> Iterator[Advice]:
    """Yield advice about a quarantine. While a workflow continues, there is no advice, because the workflow either ends
    the quarantine or fails."""
    if node.status != NodeStatus.QUARANTINED or diagnosis.goes_on(node):
        return
    last = node.last_workflow
    if node.workflow is None and node.quarantine_cause in _ENDS_WITH_A_WORKFLOW:
        why = ""
        if node.quarantine_cause == QuarantineCause.ONBOARDING_FAILED and last is not None and last.failure_class:
            why = f"the node's onboarding failed with {last.failure_class}: "
        yield Advice(f"{why}fix the cause of the node's quarantine, then {_out_of_service(node)}")
    # Without an agent, only force ends a decommission.
    forced = node.agentless and node.quarantine_cause in _ENDS_WITH_A_DECOMMISSION
    text = failures.QUARANTINE_ADVICE.get(node.quarantine_cause or "")
    if node.not_scrubbed and node.quarantine_cause == QuarantineCause.CLEANUP_VALIDATION_FAILED:
        text = failures.CLEAN_AGAIN  # an operator cannot release a node that is not scrubbed
    if text is not None:
        yield Advice(f"{text}; a decommission needs force: true, because this node is agentless" if forced else text)


def _out_of_service(node: NodeDetail) -> str:
    """Return the actions that end the quarantine of a node that has no live workflow."""
    if not node.ever_onboarded:
        return "onboard the node again or delete it"
    decommission = "decommission it with force: true" if node.agentless else "decommission it"
    return f"{decommission}, with a scrub that succeeds" if node.not_scrubbed else f"release it or {decommission}"


def _of_wait(case: Case) -> Iterator[str]:
    """If the workflow continues by itself, yield advice about its current wait."""
    node = case.node
    if not diagnosis.goes_on(node):
        return
    yield from _of_agent(case)
    if not diagnosis.waits_for_a_task(node):
        yield from _of_region(case)
    yield from _of_clocks(node, [clock for clock in case.late if clock.layer in _WORKFLOWS])
    if diagnosis.waits_for_a_task(node):
        yield f"wait: the node's agent has an unfinished task; farrier task list {node.name} shows it"


def _of_agent(case: Case) -> Iterator[str]:
    node, heard = case.node, case.node.last_heartbeat_at
    enrols = diagnosis.waits_to_enrol(node)
    if not (enrols or diagnosis.waits_for_a_task(node)):
        return
    if enrols and node.workflow is not None and node.workflow.mode == OnboardingMode.DEPLOY and not case.late:
        return  # the installed system starts the agent; the limit of the stage allows for that
    if diagnosis.has_to_enrol(node):
        yield f"start the agent with its bootstrap token, or issue a new one with farrier node bootstrap {node.name}"
    elif heard is None:
        yield (
            f"the agent of this node has never sent a heartbeat: start it; farrier task list {node.name} shows "
            "its tasks"
        )
    elif diagnosis.is_silent(node, case.now, case.patience):
        again = _TASK_OF.get(node.status)
        forced = again is not None and is_accepted(again, node)
        yield (
            f"the node's agent has sent no heartbeat since {heard:%Y-%m-%d %H:%M:%S} UTC, "
            f"{duration.human(case.now - heard)} ago: check the node's power, network and agent"
            f"{f'; if the agent is gone for good, submit {again} with force: true and a reason' if forced else ''}"
        )


def _of_region(case: Case) -> Iterator[str]:
    region = diagnosis.bad_region(case.node)
    old = diagnosis.old_since(case.node, case.now, case.patience)
    if region is not None and region.state == RegionState.UNCONFIGURED:
        yield (
            f"the controller that owns the MAAS region of site {region.site} does not have the site in its settings, "
            "so farrier does not read the region; give all replicas the same site files; farrier site list shows the "
            "sites"
        )
    elif region is not None:
        ago = duration.human(case.now - region.since)
        yield f"the MAAS region of site {region.site} has failed for {ago}; farrier site list shows its error"
    elif old is not None:
        yield (
            f"farrier last read the node's machine in MAAS {duration.human(case.now - old)} ago; farrier site list "
            "shows the state of the region"
        )


def _of_clocks(node: NodeDetail, late: Sequence[Clock]) -> Iterator[str]:
    """Advice about the clock that is furthest above its limit. More specific advice comes first, for example advice
    about a stage that timed out."""
    for clock in late[:1]:
        ways = " or ".join(action for action in _WAYS_OUT if is_accepted(action, node))
        undone = node.workflow is not None and node.workflow.status == WorkflowStatus.COMPENSATING
        then = "" if not ways or undone else f"; then submit {ways} if the node does not continue by itself"
        yield f"{of_late_clock(clock, 'node')}{then}"


def _of_bmc(node: NodeDetail) -> Iterator[str]:
    bmc = node.bmc
    if node.same_machine:
        never_served = not node.ever_onboarded and is_accepted(Action.DELETE, node)
        forced = " with force: true" if node.agentless else ""
        away = "delete it" if never_served else f"decommission it{forced}"
        yield (
            "find out to which node the machine belongs; if the machine belongs to the other node, submit set_bmc "
            f"with the correct BMC address of this node, or submit clear_bmc for this node, or {away}"
        )
    if bmc.failure is not None:
        yield failures.BMC_ADVICE[bmc.failure]
    if diagnosis.is_unread(node) and bmc.sync_failure is not None:
        yield failures.BMC_ADVICE[bmc.sync_failure]
    if diagnosis.waits_for_logins(node):
        yield (
            "if the BMC's credential is wrong, correct it where it is stored, or submit set_bmc; farrier logs in again "
            "when the pause ends"
        )
    if diagnosis.is_unkept(node) and bmc.enforce_error is not None:
        ends = (
            ", or submit set_power without enforce to stop enforcing it" if is_accepted(Action.SET_POWER, node) else ""
        )
        yield f"switch the machine {bmc.desired_power} by hand or through its BMC{ends}"


def _by_state(node: NodeDetail) -> Iterator[str]:
    if node.braked_at is not None:
        site = node.site or "''"
        yield (
            "find the common cause at the site: the network, the MAAS region or the path of heartbeats; if the "
            f"machines are really gone, run farrier site unbrake {site} --reason TEXT"
        )
    if node.status == NodeStatus.BOOTSTRAP_ISSUED:
        yield f"start the agent with its bootstrap token, or issue a new one with farrier node bootstrap {node.name}"
    if node.status == NodeStatus.OFFLINE:
        yield "check the node's power, network and agent"
    if diagnosis.is_unvalidated(node):
        yield (
            "decommission the node with a cleanup that succeeds and is validated; without this cleanup, reactivate "
            "would quarantine the node until an operator releases it with a reason"
        )
    if node.management == Management.ERROR:
        yield "submit set_bmc to provide the BMC details again"
    if node.management == Management.ADOPT_FAILED:
        again = "adopt again, or " if is_accepted(Action.ADOPT, node) else ""
        yield f"{again}submit manage to end the adoption"


def is_accepted(action: Action, node: NodeDetail) -> bool:
    """Return whether the table of actions says that the node accepts the action now."""
    if node.deleting and action not in (Action.CANCEL, Action.UNPAUSE):
        return False
    return isinstance(foreseen.by_table(action, node), Allowed)
