"""One run of one node: requests, then the layers in order, then the most telling wait.

The first rule that wants something done wins the run; after a transition the node runs again at once, so the others
get their turn within milliseconds. A rule that only waits leaves the run to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import assert_never

import msgspec

from farrier.config import NodeConfig
from farrier.config.sites import Site
from farrier.handlers.node import intents, management, power, probing, status, workflow
from farrier.handlers.node.moves import Decision, Policy
from farrier.model.limits import Limits
from farrier.model.management import Management
from farrier.model.node import Node
from farrier.model.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.model.status import NodeStatus
from farrier.model.writes import Write

_AT_ONCE = timedelta(0)
_DEFAULT_LIMITS = Limits()

_Rule = Callable[[Node, datetime, Policy], Decision | None]

_HAS_A_BMC = frozenset({Management.VERIFYING, Management.ADOPTING, Management.MANAGEABLE})

# What must be finished, what the node's health says, what is under way, what its BMC needs.
_RULES: tuple[_Rule, ...] = (workflow.stop, status.follow, workflow.progress, management.tend)
# Which of several waits tells an operator most.
_TELLING: tuple[_Rule, ...] = (workflow.progress, status.follow, management.tend, workflow.stop)


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
        self._policies = {
            whose: msgspec.structs.replace(policy, sites=sites) for whose, policy in self._policies.items()
        }

    def _policy_for(self, node: Node) -> Policy:
        """With the limits of the node's site and model."""
        return self._policies[self._limits.whose(node.site, node.model)]

    def handle(self, resource: Node, now: datetime) -> Decision:
        """Pure: the same snapshot and time give the same decision."""
        if not resource.intents:
            return self._decide(resource, now)
        answered = intents.answer(resource, now, self._policy_for(resource))
        if answered.change is not None:
            return answered.change
        return _answering(self._decide(resource, now), answered.writes)

    def recover(self, resource: Node, now: datetime) -> Decision:
        """After a run that nobody saw the end of: what it may have done to the BMC is accounted for first."""
        policy = self._policy_for(resource)
        return power.recover(resource, now, policy) or probing.recover(resource) or self.handle(resource, now)

    def _decide(self, node: Node, now: datetime) -> Decision:
        if node.status is NodeStatus.DELETED:
            return Deleted()
        waits: dict[_Rule, Wait[Write]] = {}
        soonest: timedelta | None = None
        policy = self._policy_for(node)
        for rule in _RULES:
            match rule(node, now, policy):
                case None:
                    pass
                case Wait() as wait:
                    waits[rule] = wait
                    soonest = _sooner(soonest, wait.look_again)
                case DoNothing() as nothing:
                    soonest = _sooner(soonest, nothing.look_again)
                case Transition() | Update() | Deleted() | Step() as decision:
                    return _the_bmc_first(decision, node, now, policy)
                case _ as never:
                    assert_never(never)
        if not waits:
            return DoNothing(look_again=soonest)
        return _most_telling(waits, soonest)


def _sooner(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """The sooner of two times to look again; None is none."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _the_bmc_first(decision: Decision, node: Node, now: datetime, policy: Policy) -> Decision:
    """Of two that need the outside the BMC's: it is due now and then, and a stage may ask without end while MAAS is
    away. A node that is verified or adopted has a minute for it."""
    if not isinstance(decision, Step) or node.management not in _HAS_A_BMC:
        return decision
    tended = management.tend(node, now, policy)
    return decision if tended is None or isinstance(tended, Wait | DoNothing) else tended


def _most_telling(waits: dict[_Rule, Wait[Write]], soonest: timedelta | None) -> Wait[Write]:
    told = next(waits[rule] for rule in _TELLING if rule in waits)
    writes = tuple(write for wait in waits.values() for write in wait.writes)
    return msgspec.structs.replace(told, look_again=soonest, writes=writes)


def _answering(decision: Decision, writes: tuple[Write, ...]) -> Decision:
    """`decision`, committing answers as well; then again at once, for there may be more requests than a snapshot shows.
    Answers wait neither for the outside world nor for a node to be gone: those two come in the run after."""
    if not writes:
        return decision
    match decision:
        case Step() | Deleted():
            return Wait(reason="answered requests first", look_again=_AT_ONCE, writes=writes)
        case Wait() | DoNothing():
            return msgspec.structs.replace(decision, look_again=_AT_ONCE, writes=writes + decision.writes)
        case Transition() | Update():
            return msgspec.structs.replace(decision, writes=writes + decision.writes)
        case _ as never:
            assert_never(never)
