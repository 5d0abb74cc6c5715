"""Chooses what an operator should do about a resource, from its state and from observed facts.

`explanation` shows the first piece of advice, because it is nearest to the cause. An advice never names an intent that
the node would refuse, nor a destructive intent for a machine that may be in use. A view does not show everything that
the node's handler checks. So whoever can reach a controller asks it about the intents of `candidates`, and passes its
answers to `of_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from farrier.errors import InternalError
from farrier.model import duration
from farrier.model.advice import diagnosis
from farrier.model.advice import workflow as workflow_advice
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.recommended import Advice, Recommended, submit
from farrier.model.intents import actions, preview
from farrier.model.intents.acceptance import Allowed
from farrier.model.intents.actions import Action
from farrier.model.loop import restores
from farrier.model.loop.outcome import EndsBy
from farrier.model.maas.region import RegionState
from farrier.model.machine import expected
from farrier.model.node import conditions, failures
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import (
    FAILED,
    DecommissionMode,
    Layer,
    Management,
    NodeStatus,
    OnboardingMode,
    WorkflowStatus,
)
from farrier.model.views import sweeps
from farrier.model.views.nodes import NodeDetail
from farrier.model.views.resources import ResourceView

NO_ACTION = "no action is needed"

# Of these actions, only the first continues a failed stage. The other two actions undo the workflow's work. After the
# undo, restart_clean starts the workflow again.
_WAYS_OUT = (Action.RETRY_STAGE, Action.RESTART_CLEAN, Action.CANCEL)
_WORKFLOWS = frozenset({Layer.ONBOARDING, Layer.DECOMMISSION})
# Actions that need force for a node without an agent, because only an agent can do their tasks.
_TASKS = frozenset({Action.DRAIN, Action.DECOMMISSION, Action.REMOVE})

Accepts = Callable[[Recommended], bool]


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


def of_late_clock(clock: StateClock, noun: str) -> str:
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
    late: Sequence[StateClock]
    patience: Patience
    period: timedelta = sweeps.PERIOD


def of_node(case: Case, accepts: Accepts | None = None) -> Advice:
    """Return the advice about the node. `accepts` returns what a controller answered about an intent of `candidates`.
    Without it, only the table of actions decides."""
    for advice in _possible(case):
        chosen = tuple(intent for intent in advice.intents if accepts is None or accepts(intent))
        if advice.todo or advice.wait or chosen:
            return replace(advice, intents=chosen)
    return _of_reason(case.node)


def candidates(case: Case) -> tuple[Recommended, ...]:
    """Return every intent that some advice about the node names, each one time."""
    found: list[Recommended] = []
    for advice in _possible(case):
        found += [intent for intent in advice.intents if intent not in found]
    return tuple(found)


def is_accepted(action: Action, node: NodeDetail) -> bool:
    """Return whether the table of actions says that the node accepts the action now."""
    if node.deleting and action not in actions.ANSWERED_WHILE_DELETING:
        return False
    return isinstance(preview.by_table(action, node), Allowed)


def _possible(case: Case) -> Iterator[Advice]:
    """Yield each piece of advice, with the intents that the node may accept and that cannot harm its machine."""
    node = case.node
    in_use = diagnosis.may_be_in_use(node, case.now, case.patience)
    for advice in () if diagnosis.is_deleted(node) else _all(case):
        fit = (
            _forced(intent, node)
            for intent in advice.intents
            if is_accepted(intent.action, node)
            and diagnosis.may_accept(intent, node, case.now, case.patience)
            and not (in_use and actions.is_destructive(intent.action, intent.params, node.workflow))
        )
        yield replace(advice, intents=tuple(fit))


def _forced(intent: Recommended, node: NodeDetail) -> Recommended:
    if intent.params.get("replace") and node.status in actions.IN_USE:
        return replace(intent, params={**intent.params, "force": True})
    if not node.agentless or intent.action not in _TASKS or intent.params.get("force"):
        return intent
    return replace(intent, params={**intent.params, "force": True}, fill=(*intent.fill, "reason"))


def _of_reason(node: NodeDetail) -> Advice:
    """Return the advice about a node about which nothing but the reason of its wait is known."""
    outcome = node.outcome
    if outcome is None or outcome.outcome != "wait" or diagnosis.is_deleted(node):
        return Advice()
    if outcome.ends_by == EndsBy.PERSON:
        return Advice("correct what the reason names; farrier then continues by itself")
    if outcome.ends_by == EndsBy.CONFIRMATION:
        return Advice(
            wait="farrier reads the machine in MAAS again; if the second reading agrees, the node leaves service"
        )
    return Advice()


def _texts(found: Iterable[str]) -> Iterator[Advice]:
    return map(Advice, found)


def _all(case: Case) -> Iterator[Advice]:
    node = case.node
    asked = diagnosis.unanswered(node)
    yield from _texts(filter_runs(node, case.now, case.period))
    if node.unreachable is not None and diagnosis.is_silent(node, case.now, case.patience):
        yield Advice("restore the doors of agents; farrier controllers lists them")
    if node.restored_at is not None:
        yield Advice(restores.LIFT)
    if diagnosis.is_held(node):
        yield Advice("finish the work for which the node is paused", submit(Action.UNPAUSE))
    if diagnosis.is_unowned(node):
        yield Advice(intents=(Recommended(Action.RESUME, when="to create the missing decommission"),))
    if node.workflow is not None and node.workflow.failure_class in failures.BY_THE_REGION:
        yield from () if node.workflow.status not in FAILED else _texts(_of_region(case))
    yield from workflow_advice.of_failure(node, case.now, case.patience)
    yield from workflow_advice.of_quarantine(node, case.now, case.patience)
    if diagnosis.is_about_the_bmc(node):
        yield from _of_bmc(node)
    yield from _of_wait(case)
    yield from _of_bmc(node)
    if node.workflow is not None and node.workflow.mode is None:
        yield Advice("decide how the node is onboarded: onboarding does not start by itself", workflow_advice.ONBOARD)
    yield from _by_state(node)
    if diagnosis.not_as_expected(node, case.now, case.patience) is not None:
        yield Advice(
            "find out who changed the machine in MAAS, and correct it there",
            (Recommended(Action.REMOVE, when="if the machine is gone for good"),),
        )
    yield from _texts(_of_region(case))
    yield from _of_clocks(node, case.late)
    yield from workflow_advice.of_conditions(conditions.shown_notes(node.conditions))
    for request in asked[:1]:
        yield Advice(wait=f"farrier answers intent {request.id} when the cause of the delay is gone")


def _of_wait(case: Case) -> Iterator[Advice]:
    """If the workflow continues by itself, yield advice about its current wait."""
    node = case.node
    if not diagnosis.goes_on(node):
        return
    yield from _of_agent(case)
    if not diagnosis.waits_for_a_task(node):
        yield from _texts(_of_region(case))
    yield from _of_clocks(node, [clock for clock in case.late if clock.layer in _WORKFLOWS])
    if diagnosis.waits_for_a_task(node):
        yield Advice(wait=f"the node's agent has an unfinished task; farrier task list {node.name} shows it")


def _of_agent(case: Case) -> Iterator[Advice]:
    node, heard = case.node, case.node.last_heartbeat_at
    enrols = diagnosis.waits_to_enrol(node)
    if not (enrols or diagnosis.waits_for_a_task(node)):
        return
    if enrols and node.workflow is not None and node.workflow.mode == OnboardingMode.DEPLOY and not case.late:
        return  # the installed system starts the agent; the limit of the stage allows for that
    if diagnosis.has_to_enrol(node):
        yield Advice(_start_the_agent(node))
    elif heard is None:
        yield Advice(
            f"the agent of this node has never sent a heartbeat: start it; farrier task list {node.name} shows "
            "its tasks"
        )
    elif diagnosis.is_silent(node, case.now, case.patience):
        yield Advice(
            f"the node's agent has sent no heartbeat since {heard:%Y-%m-%d %H:%M:%S} UTC, "
            f"{duration.human(case.now - heard)} ago: check the node's power, network and agent",
            tuple(_without_the_agent(node)),
        )


def _without_the_agent(node: NodeDetail) -> Iterator[Recommended]:
    """Yield the intent that began the live decommission, with force: it extends the options of this decommission."""
    workflow = node.workflow
    if workflow is None or workflow.mode is None:
        return
    begun_by: tuple[Action, Mapping[str, str]] = (Action.DECOMMISSION, {"mode": workflow.mode})
    if workflow.leave_out:
        begun_by = (Action.DRAIN if workflow.mode == DecommissionMode.SOFT_RESET else Action.REMOVE, {})
    action, params = begun_by
    yield Recommended(action, {**params, "force": True}, ("reason",), when="if the agent is gone for good")


def _start_the_agent(node: NodeDetail) -> str:
    return f"start the agent with its bootstrap token, or issue a new one with farrier node bootstrap {node.name}"


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
    elif case.node.maas is not None and expected.not_known(case.node.maas) is not None:
        yield "update farrier, or bring the machine into a status that this release knows"


def _of_clocks(node: NodeDetail, late: Sequence[StateClock]) -> Iterator[Advice]:
    """Advice about the clock that is furthest above its limit. More specific advice comes first, for example advice
    about a stage that timed out."""
    undone = node.workflow is not None and node.workflow.status == WorkflowStatus.COMPENSATING
    ways = () if undone else _WAYS_OUT
    for clock in late[:1]:
        yield Advice(
            of_late_clock(clock, "node"),
            tuple(Recommended(action, when="if the node does not continue by itself") for action in ways),
        )


def _of_bmc(node: NodeDetail) -> Iterator[Advice]:
    bmc = node.bmc
    if node.same_machine:
        yield Advice(
            "find out to which node the machine belongs",
            (
                Recommended(Action.SET_BMC, fill=("address",), when="if this node has another BMC"),
                Recommended(Action.CLEAR_BMC, when="if the machine belongs to the other node"),
            ),
        )
    if bmc.failure is not None:
        yield failures.BMC_ADVICE[bmc.failure]
    if diagnosis.is_unread(node) and bmc.sync_failure is not None:
        yield failures.BMC_ADVICE[bmc.sync_failure]
    if diagnosis.waits_for_logins(node):
        yield Advice(
            "if the BMC's credential is wrong, correct it where it is stored; farrier logs in again when the pause "
            "ends",
            (Recommended(Action.SET_BMC, fill=("credential",), when="if it is stored elsewhere now"),),
        )
    if diagnosis.is_unkept(node) and bmc.enforce_error is not None:
        yield Advice(
            f"switch the machine {bmc.desired_power} by hand or through its BMC",
            (Recommended(Action.SET_POWER, {"power": bmc.power}, when="to keep its present power"),),
        )


def _by_state(node: NodeDetail) -> Iterator[Advice]:
    if node.braked_at is not None:
        site = node.site or "''"
        yield Advice(
            "find the common cause at the site: the network, the MAAS region or the path of heartbeats; if the "
            f"machines are really gone, run farrier site unbrake {site} --reason TEXT"
        )
    if node.status == NodeStatus.BOOTSTRAP_ISSUED:
        yield Advice(_start_the_agent(node))
    if node.status == NodeStatus.OFFLINE:
        yield Advice("check the node's power, network and agent")
    if diagnosis.is_unvalidated(node):
        yield Advice(
            "the node was not cleaned and validated; without this, it does not return to service",
            failures.CONDITION_ADVICE["cleaning/validation_failed"].intents,
        )
    if node.status == NodeStatus.RETIRED and node.workflow is None:
        yield from workflow_advice.of_conditions(conditions.quarantining(node.conditions))
    if node.management == Management.ERROR:
        yield Advice(intents=(Recommended(Action.SET_BMC, fill=("address", "credential")),))
    if node.management == Management.ADOPT_FAILED:
        yield Advice(intents=(*submit(Action.ADOPT), Recommended(Action.MANAGE, when="to end the adoption")))
    if node.status == NodeStatus.ENROLLING and node.workflow is None:
        yield Advice("decide how the node is onboarded: no onboarding is live", workflow_advice.ONBOARD)
