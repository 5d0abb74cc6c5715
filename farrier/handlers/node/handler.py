"""One run of one node: the first rule that has something to write, to move or to do outside has the run.

An intent that changes the node comes first, then the layers in order; answers that change nothing go with what these
decide. A rule that only waits leaves the run to the next one. What a rule writes is committed by itself, on the state
that it was decided on, and the node runs again at once: then the others have their turn. So no rule waits for ever
behind another, as long as what it writes, moves or does leaves it wanting nothing more at once
(`tests/unit/handlers/test_every_rule_has_its_turn.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import Site
from farrier.handlers.node import (
    adopting,
    intents,
    management,
    power,
    probing,
    requests_bmc,
    requests_control,
    requests_details,
    requests_lifecycle,
    requests_observed,
    requests_onboard,
    requests_workflow,
    status,
    workflow,
)
from farrier.handlers.node.moves import Decision, NodeServices, Outcome, Policy
from farrier.handlers.node.reply import Respond
from farrier.model.actions import Action
from farrier.model.limits import Limits
from farrier.model.management import Management
from farrier.model.node import Node
from farrier.model.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.model.status import NodeStatus
from farrier.model.writes import AnswerIntent, Write

_AT_ONCE = timedelta(0)
_DEFAULT_LIMITS = Limits()

_Rule: TypeAlias = Callable[[Node, datetime, Policy], Decision | None]
_NodeStep: TypeAlias = Step[Node, Write, NodeServices]


def _gone(node: Node, now: datetime, policy: Policy) -> Decision | None:
    return Deleted() if node.status is NodeStatus.DELETED else None


# What the node's BMC needs next, if anything, by the state of management.
OF_THE_BMC: Mapping[Management, _Rule | None] = {
    Management.MANAGEABLE: power.tend,
    Management.ENROLL: management.enroll,
    Management.VERIFYING: management.verify,
    Management.ADOPTING: adopting.adopt,
    Management.ADOPT_FAILED: management.verify_if_asked,
    Management.UNMANAGED: None,
    Management.ERROR: None,
}


def _tend(node: Node, now: datetime, policy: Policy) -> Decision | None:
    """The BMC of a node that is being deleted is left alone."""
    rule = None if node.deleting else OF_THE_BMC[node.management]
    return None if rule is None else rule(node, now, policy)


# What must be finished, what the node's health says, what is under way, what its BMC needs.
RULES: tuple[_Rule, ...] = (_gone, workflow.stop, status.follow, workflow.progress, _tend)
# Which of several waits tells an operator most.
_TELLING: tuple[_Rule, ...] = (workflow.progress, status.follow, _tend, workflow.stop)

RESPONSES: Mapping[Action, Respond] = {
    Action.ONBOARD: requests_onboard.onboard,
    Action.ADOPT: requests_onboard.adopt,
    Action.QUARANTINE: requests_lifecycle.quarantine,
    Action.RELEASE: requests_lifecycle.release,
    Action.REACTIVATE: requests_lifecycle.reactivate,
    Action.DELETE: requests_lifecycle.delete,
    Action.DRAIN: requests_workflow.drain,
    Action.REMOVE: requests_workflow.remove,
    Action.DECOMMISSION: requests_workflow.decommission,
    Action.RETRY_STAGE: requests_workflow.retry_stage,
    Action.RESUME: requests_workflow.resume,
    Action.RERUN: requests_workflow.rerun,
    Action.RESTART_CLEAN: requests_workflow.restart_clean,
    Action.CANCEL: requests_workflow.cancel,
    Action.MARK_MANUAL_INTERVENTION_REQUIRED: requests_workflow.mark_manual_intervention_required,
    Action.ADOPT_OBSERVED_STATE: requests_observed.adopt_observed_state,
    Action.SET_BMC: requests_bmc.set_bmc,
    Action.CLEAR_BMC: requests_bmc.clear_bmc,
    Action.MANAGE: requests_bmc.manage,
    Action.SET_POWER: requests_bmc.set_power,
    Action.SET: requests_details.set_details,
    Action.PAUSE: requests_control.pause,
    Action.UNPAUSE: requests_control.unpause,
}


class NodeHandler:
    """`protocols.StateHandler` of nodes."""

    def __init__(
        self, config: NodeConfig, limits: Limits = _DEFAULT_LIMITS, sites: Mapping[str, Site] | None = None
    ) -> None:
        """`limits` are those that differ from the defaults; `sites` are what is configured of sites."""
        self._limits = limits
        given = msgspec.structs.asdict(config)
        # Made once and not for each run: few sites and models have limits of their own.
        self._policies = {
            whose: Policy(**given, sla=overrides, sites=sites or {}) for whose, overrides in limits.all().items()
        }

    def use_sites(self, sites: Mapping[str, Site]) -> None:
        """Decide by these from the next run on."""
        self._policies = {whose: replace(policy, sites=sites) for whose, policy in self._policies.items()}

    def _policy_for(self, node: Node) -> Policy:
        """With the limits of the node's site and model."""
        return self._policies[self._limits.whose(node.site, node.model)]

    def handle(self, resource: Node, now: datetime) -> Decision:
        """Pure: the same snapshot and time give the same decision."""
        policy = self._policy_for(resource)
        answered = intents.answer(resource, now, policy, RESPONSES)
        match answered:
            case Wait() if all(isinstance(write, AnswerIntent) for write in answered.writes):
                return _answering(answered, self._decide(resource, now, policy))
            case Wait():
                return replace(answered, requeue_after=_AT_ONCE)
            case Transition() | Update():
                return answered
            case None:
                return self._decide(resource, now, policy)
            case _ as never:
                assert_never(never)

    def confirmed(self, stored: Node, remembered: Node, now: datetime) -> Node:
        """The stored node with when its power was last confirmed."""
        return power.confirmed(stored, remembered, now)

    def _decide(self, resource: Node, now: datetime, policy: Policy) -> Decision:
        waits: dict[_Rule, Wait[Write]] = {}
        soonest: timedelta | None = None
        for rule in RULES:
            match rule(resource, now, policy):
                case None:
                    pass
                case Wait(writes=()) as wait:
                    waits[rule] = wait
                    soonest = _sooner(soonest, wait.requeue_after)
                case DoNothing(writes=()) as nothing:
                    soonest = _sooner(soonest, nothing.requeue_after)
                case Wait() | DoNothing() as writing:
                    return replace(writing, requeue_after=_AT_ONCE)
                case Step() as step:
                    return step if rule is _tend else _the_bmc_first(step, resource, now, policy)
                case Transition() | Update() | Deleted() as decision:
                    return decision
                case _ as never:
                    assert_never(never)
        if not waits:
            return DoNothing(requeue_after=soonest)
        resting = all(wait.rests for wait in waits.values())
        return replace(next(waits[rule] for rule in _TELLING if rule in waits), requeue_after=soonest, rests=resting)

    def recover(self, resource: Node, now: datetime, step: str) -> Decision:
        """After a step whose end is not recorded: what it may have done to the BMC is accounted for first."""
        return power.recover(resource, now, step=step) or probing.recover(resource) or self.handle(resource, now)


def _answering(answered: Wait[Write], decision: Decision) -> Decision:
    """Both in one commit, or a client that asks before each run would keep the rules from theirs. Answers do not wait
    for the outside, nor for a node that is gone."""
    match decision:
        case Step() | Deleted():
            return replace(answered, requeue_after=_AT_ONCE)
        case DoNothing():
            return replace(answered, requeue_after=_AT_ONCE, writes=answered.writes + decision.writes)
        case Wait():
            return replace(decision, requeue_after=_AT_ONCE, writes=answered.writes + decision.writes)
        case Transition() | Update():
            return replace(decision, writes=answered.writes + decision.writes)
        case _ as never:
            assert_never(never)


def _sooner(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """The sooner of two times to look again; None is none."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _the_bmc_first(step: _NodeStep, node: Node, now: datetime, policy: Policy) -> Decision:
    """Of two that need the outside the BMC's: it is due now and then, and a stage may ask without end while MAAS is
    away. The stage's comes right after; and before, where the BMC was read so lately that a slow read may have been all
    that happened since."""
    tended = _tend(node, now, policy)
    match tended:
        case None | Wait() | DoNothing():
            return step
        case Step():
            return step if power.was_just_read(node, now, policy) else _then_at_once(tended)
        case Transition() | Update() | Deleted():
            return tended
        case _ as never:
            assert_never(never)


def _then_at_once(step: _NodeStep) -> _NodeStep:
    """The step, and after it a run at once for what made way for it."""

    async def act(services: NodeServices) -> Outcome:
        outcome = await step.act(services)
        match outcome:
            case Update() | Wait() | DoNothing():
                return replace(outcome, requeue_after=_AT_ONCE)
            case Transition() | Deleted():
                return outcome
            case _ as never:
                assert_never(never)

    return replace(step, act=act)
