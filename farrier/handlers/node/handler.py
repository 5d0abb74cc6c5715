"""One run of one node: the first rule that returns a write, a transition or a step ends the run.

An intent that changes the node comes first, then the rules in order. Answers that change nothing are committed with the
decision of the rules. After a rule that only waits, the run continues with the next rule. If a rule returns writes,
they are committed before any other rule can change the node's state. Then the node runs again at once, so that the
other rules are called. A rule must not require that its write, transition or step is directly followed by another
write, transition or step of the same rule, because the later rules would starve
(`tests/unit/handlers/test_every_rule_has_its_turn.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from itertools import product
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import Site
from farrier.handlers.node.after import after
from farrier.handlers.node.bmc import probing
from farrier.handlers.node.changes import Decision, NodeServices, NodeStep, Outcome, Policy
from farrier.handlers.node.intents import bmc, details, dispatch, lifecycle, observed_state, onboard
from farrier.handlers.node.intents import workflow as requests_workflow
from farrier.handlers.node.intents.dispatch import ANSWERED
from farrier.handlers.node.intents.reply import Respond
from farrier.handlers.node.rules import adoption, conditions, management, power, restored, status, workflow
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Update, Wait, most_urgent
from farrier.model.loop.restores import Hold
from farrier.model.node.edges import WITHOUT_WORKFLOW
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import Write

_AT_ONCE = timedelta(0)
_AT_REST: DoNothing[Write] = DoNothing()
_DEFAULT_LIMITS = Limits()

_Decide: TypeAlias = Callable[[Node, datetime, Policy], Decision | None]
_Resting: TypeAlias = Wait[Write] | DoNothing[Write]


def _gone(node: Node, now: datetime, policy: Policy) -> Decision:
    return Deleted()


class Rule(msgspec.Struct, frozen=True):
    """A rule, and the states of the nodes for which it is called. `live` (whether a workflow is live) and `deleting`
    (whether the node is being deleted) have to match the node; None matches every node."""

    decide: _Decide
    statuses: Collection[N] = tuple(N)
    managements: Collection[M] = tuple(M)
    live: bool | None = None
    deleting: bool | None = None

    def is_for(self, status: N, management: M, live: bool, deleting: bool) -> bool:
        """Return whether the rule is called for this node."""
        states = status in self.statuses and management in self.managements
        return states and self.live in (None, live) and self.deleting in (None, deleting)


# In order of priority: unfinished stops, the health of the node, the live workflow, the BMC.
RULES: tuple[Rule, ...] = (
    Rule(_gone, {N.DELETED}),
    Rule(workflow.stop, live=True),
    Rule(status.bootstrap_issued, {N.BOOTSTRAP_ISSUED}),
    Rule(status.active, {N.ACTIVE}),
    Rule(status.offline, {N.OFFLINE}),
    Rule(status.quarantined, {N.QUARANTINED}, live=False, deleting=False),
    Rule(workflow.progress, live=True),
    Rule(workflow.remove, set(N) - {N.BOOTSTRAP_ISSUED}, live=False, deleting=True),
    Rule(workflow.redeploy, {N.RETIRED}, live=False),
    Rule(workflow.not_begun, {N.ENROLLING}, live=False),
    Rule(workflow.orphaned, set(N) - WITHOUT_WORKFLOW, live=False),
    # Rules of the BMC come last, as `_the_bmc_first` requires.
    Rule(power.tend, managements={M.MANAGEABLE}, deleting=False),
    Rule(management.enroll, managements={M.ENROLL}, deleting=False),
    Rule(management.verify, managements={M.VERIFYING}, deleting=False),
    Rule(adoption.adopt, managements={M.ADOPTING}, deleting=False),
    Rule(management.verify_if_asked, managements={M.ADOPT_FAILED}, deleting=False),
)

RULES_FOR: Mapping[tuple[N, M, bool, bool], tuple[_Decide, ...]] = {
    place: tuple(rule.decide for rule in RULES if rule.is_for(*place))
    for place in product(N, M, (False, True), (False, True))
}
"""The rules, in the order of their calls, for each (status, management, whether a workflow is live, `deleting`)."""

RESPONSES: Mapping[Action, Respond] = {
    Action.ONBOARD: onboard.onboard,
    Action.ADOPT: onboard.adopt,
    Action.QUARANTINE: lifecycle.quarantine,
    Action.RELEASE: lifecycle.release,
    Action.REACTIVATE: lifecycle.reactivate,
    Action.DELETE: lifecycle.delete,
    Action.DRAIN: requests_workflow.drain,
    Action.REMOVE: requests_workflow.remove,
    Action.DECOMMISSION: requests_workflow.decommission,
    Action.RETRY_STAGE: requests_workflow.retry_stage,
    Action.RESUME: requests_workflow.resume,
    Action.RERUN: requests_workflow.rerun,
    Action.RESTART_CLEAN: requests_workflow.restart_clean,
    Action.CANCEL: requests_workflow.cancel,
    Action.MARK_MANUAL_INTERVENTION_REQUIRED: requests_workflow.mark_manual_intervention_required,
    Action.ADOPT_OBSERVED_STATE: observed_state.adopt_observed_state,
    Action.SET_BMC: bmc.set_bmc,
    Action.CLEAR_BMC: bmc.clear_bmc,
    Action.MANAGE: bmc.manage,
    Action.SET_POWER: bmc.set_power,
    Action.SET: details.set_details,
    Action.PAUSE: requests_workflow.pause,
    Action.UNPAUSE: requests_workflow.unpause,
}


class NodeHandler:
    """Implements `protocols.StateHandler` for nodes."""

    def __init__(
        self, config: NodeConfig, limits: Limits = _DEFAULT_LIMITS, sites: Mapping[str, Site] | None = None
    ) -> None:
        """`limits` contains the limits that differ from the defaults; `sites` contains the configured sites."""
        self._limits = limits
        given = msgspec.structs.asdict(config)
        # Created only one time, not for each run, because only a few sites and models set limits.
        self._policies = {
            whose: Policy(**given, sla=overrides, sites=sites or {}) for whose, overrides in limits.all().items()
        }

    def use_sites(self, sites: Mapping[str, Site]) -> None:
        """Use these sites from the next run on."""
        self._policies = {whose: replace(policy, sites=sites) for whose, policy in self._policies.items()}

    def handle(self, resource: Node, now: datetime) -> Decision:
        """Decide one run. Pure: the same snapshot and time give the same decision."""
        policy = self._policy(resource)
        node = conditions.with_conditions(resource, now, policy)
        if node is not resource:  # decide as if these conditions were stored already
            return conditions.recorded(resource, node, self.handle(node, now))
        answered = dispatch.answer(resource, now, policy, RESPONSES) if resource.intents else ()
        if not isinstance(answered, tuple):
            return answered
        rules = RULES_FOR[resource.status, resource.management, resource.workflow is not None, resource.deleting]
        resting: dict[_Decide, _Resting] = {}
        for rule in rules:
            decision = rule(resource, now, policy)
            if decision is None:
                continue
            if isinstance(decision, (Wait, DoNothing)):
                if not decision.writes:
                    resting[rule] = decision
                    continue
                decision = replace(decision, requeue_after=_AT_ONCE)
            elif isinstance(decision, Step):
                if rule is not rules[-1]:
                    decision = _the_bmc_first(decision, rules[-1], resource, now, policy)
                elif decision.observes and any(isinstance(each, Wait) and not each.rests for each in resting.values()):
                    decision = replace(decision, observes=False)  # only a load shows what ends this wait
            break
        else:
            decision = _together(resting) if len(resting) > 1 else next(iter(resting.values()), _AT_REST)
        return _with_answers(decision, answered) if answered else decision

    def observe(self, resource: Node, now: datetime, hold: Hold) -> Decision:
        """Decide for a node that is held after a restore: only read."""
        adopt = RESPONSES[Action.ADOPT_OBSERVED_STATE]
        return restored.observe(resource, now, self._policy(resource), hold, adopt=adopt)

    after = staticmethod(after)

    def confirmed(self, stored: Node, remembered: Node, now: datetime) -> Node:
        """Return the stored node with the time at which its power was last confirmed."""
        return power.confirmed(stored, remembered, now)

    def recover(self, resource: Node, now: datetime, step: str) -> Decision:
        """Decide what follows a step whose result was not recorded: first, what it may have done at the BMC."""
        return power.recover(resource, now, step=step) or probing.recover(resource) or self.handle(resource, now)

    def _policy(self, node: Node) -> Policy:
        site = node.site if node.site in self._limits.sites else None
        return self._policies[site, node.model if node.model in self._limits.models else None]


def _together(resting: Mapping[_Decide, _Resting]) -> Decision:
    """Combine decisions that only wait: the earliest time, and the reason that helps an operator most."""
    waits = {rule: each for rule, each in resting.items() if isinstance(each, Wait)}
    soonest = min((each.requeue_after for each in resting.values() if each.requeue_after is not None), default=None)
    if not waits:
        return DoNothing(requeue_after=soonest)
    if len(waits) == 1:  # nearly all
        return replace(next(iter(waits.values())), requeue_after=soonest)
    ends_by = most_urgent(wait.ends_by for wait in waits.values())
    shown = waits.get(workflow.progress) or next(wait for wait in waits.values() if wait.ends_by is ends_by)
    rests = all(wait.rests for wait in waits.values())
    return replace(shown, ends_by=ends_by, requeue_after=soonest, rests=rests)


def _with_answers(decision: Decision, answers: tuple[Write, ...]) -> Decision:
    """Combine answers and decision in one commit. Otherwise, a client that submits an intent before each run would
    starve the rules. If the decision is a step, the answers are committed before the step; for a deleted node, they are
    committed alone."""
    match decision:
        case Step() | Deleted():
            return Wait(reason=ANSWERED, requeue_after=_AT_ONCE, writes=answers)
        case DoNothing():
            return Wait(reason=ANSWERED, requeue_after=_AT_ONCE, writes=answers + decision.writes)
        case Wait():
            return replace(decision, requeue_after=_AT_ONCE, writes=answers + decision.writes)
        case Transition() | Update():
            return replace(decision, writes=answers + decision.writes)
        case _ as never:
            assert_never(never)


def _the_bmc_first(step: NodeStep, of_the_bmc: _Decide, node: Node, now: datetime, policy: Policy) -> Decision:
    """Choose between a step of a stage and a step of the BMC. The BMC's step comes first, because this step is rarely
    due, while a stage may request steps without end if MAAS is unavailable. The stage's step follows at once. If the
    BMC was just read, the stage's step comes first, so that slow reads in a row do not starve the stage."""
    tended = of_the_bmc(node, now, policy)
    match tended:
        case None | Wait() | DoNothing():
            return step
        case Step():
            return step if power.was_just_read(node, now, policy) else _then_at_once(tended)
        case Transition() | Update() | Deleted():
            return tended
        case _ as never:
            assert_never(never)


def _then_at_once(step: NodeStep) -> NodeStep:
    """Make the node run again at once after this step, for the step that was deferred."""

    async def act(services: NodeServices) -> Outcome:
        outcome = await step.act(services)
        match outcome:
            case Update() | Wait() | DoNothing():
                return replace(outcome, requeue_after=_AT_ONCE)
            case Transition() | Deleted():
                return outcome
            case _ as never:
                assert_never(never)

    return replace(step, act=act, observes=False)
