"""The status layer: transitions that belong to no workflow, because of heartbeats, readings, conditions
and enrolments.

Stale facts prove nothing and cause no transition. The rules also apply to a paused node, because a pause does not stop
observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from farrier.handlers.node.changes import Decision, Policy, transition, unproven_health, vitals, with_fields
from farrier.handlers.node.rules.conditions import drift, drift_ends
from farrier.model.loop.outcome import EndsBy, Wait
from farrier.model.machine import health
from farrier.model.machine.bmc import PowerState
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Source
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Bmc, Decommission, Node, Onboarding
from farrier.model.node.writes import LeaveService

# A machine may take so long to shut down its system. If the power is off later, no intent switched it off.
_SWITCHES_OFF_WITHIN = timedelta(minutes=30)

_NEVER_ONBOARDED = "no onboarding of the node ever succeeded"

_AGENT_ELSEWHERE = f"{Source.IDENTITY}/{conditions.AGENT_ELSEWHERE}"


def bootstrap_issued(node: Node, now: datetime, config: Policy) -> Decision:
    """Enter `enrolling` when the agent has enrolled."""
    if node.agent is None:
        return Wait(reason="waits for the agent to enrol with its bootstrap token", ends_by=EndsBy.PERSON, rests=True)
    return transition(
        node,
        with_fields(node, status=N.ENROLLING, workflow=Onboarding(mode=OnboardingMode.MANUAL, mode_given_at=now)),
        reason="the agent enrolled with its bootstrap token",
        cause="signal: agent enrolled",
    )


class _Leaving(msgspec.Struct, frozen=True):
    """A cause to leave service: the status that the node enters, the reason, the cause for the history, and the causes
    that the brake counts. If there are none, no brake applies."""

    to: N
    reason: str
    cause: str
    counted: tuple[str, ...] = ()


def active(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Take the node out of service if it is switched off or silent, or if a condition requires it. A brake holds the
    node only for the causes that this brake counts."""
    facts, said = vitals(node, now, config), drift(node, now, config)
    off, silence = health.off(facts), health.silent(facts)
    if off is None and silence is None and said is None and not node.conditions:
        return None  # nearly every run
    first: _Leaving | None = None
    for leaving in (*_by_absence(node, off, silence), *_by_conditions(node, facts, now, config)):
        if not leaving.counted or not set(node.braked).issuperset(leaving.counted):
            return _left(node, leaving)
        first = first or leaving
    if first is not None:
        return Wait(
            reason=f"the brake of the site keeps the node in service: {first.reason}",
            ends_by=EndsBy.PERSON,
            requeue_after=health.BRAKE_RETRY,
        )
    if said is None or conditions.has_source(node.conditions, Source.REGION):
        return None
    return Wait(reason=f"{said}; a second reading has to confirm this", ends_by=EndsBy.CONFIRMATION, rests=True)


def offline(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Quarantine the node if a condition requires it; return the node to `active` when it is proven healthy."""
    if node.workflow is None and not node.ever_onboarded:  # after a cancelled drain
        to = with_fields(node, status=N.QUARANTINED)
        return transition(node, to, reason=_NEVER_ONBOARDED, cause="rule: quarantine")
    facts = vitals(node, now, config)
    for leaving in _by_conditions(node, facts, now, config):
        return _left(node, leaving)
    unproven = health.unproven(facts) or _unknown(node)
    if unproven is None:
        if isinstance(node.workflow, Decommission):
            return None  # healthy again, but being decommissioned
        return transition(
            node,
            with_fields(node, status=N.ACTIVE, ever_active=True),
            reason="the node is healthy again",
            cause="signal: health",
        )
    # A heartbeat that shows no change does not wake the node, but it proves that the machine runs again.
    return Wait(reason=f"offline: {unproven}", ends_by=EndsBy.PERSON, rests=not facts.is_off)


def _unknown(node: Node) -> str | None:
    """Return why a node with conditions that are unknown does not return to service, or None."""
    standing = conditions.in_words(node.conditions) if node.conditions else ""
    return f"it is unknown whether a condition still stands: {standing}" if standing else None


def quarantined(node: Node, now: datetime, config: Policy) -> Decision:
    """Return the node to `active` when no condition keeps it out of service and its health is proven. The handler calls
    this rule only without a live workflow and without a deletion."""
    standing = conditions.quarantining(node.conditions)
    if standing:
        of_the_region = node.ever_onboarded and {each.source for each in standing} == {Source.REGION}
        is_ending = of_the_region and drift_ends(node, now, config)
        ends_by = EndsBy.ITSELF if is_ending else EndsBy.PERSON
        # A read of the region's events that shows none of this machine does not wake the node, but it proves that the
        # machine is still deployed.
        return Wait(reason=f"quarantined: {conditions.in_words(standing)}", ends_by=ends_by, rests=not is_ending)
    if not node.ever_onboarded:
        return Wait(reason=f"quarantined: {_NEVER_ONBOARDED}", ends_by=EndsBy.PERSON, rests=True)
    unproven = unproven_health(node, now, config)
    if unproven is not None:
        return Wait(
            reason=f"quarantined until the node's health is proven: {unproven}", ends_by=EndsBy.PERSON, rests=True
        )
    return transition(
        node,
        with_fields(node, status=N.ACTIVE, ever_active=True),
        reason="nothing keeps the node out of service any more",
        cause="signal: health",
    )


def _by_absence(node: Node, off: str | None, silence: str | None) -> Iterator[_Leaving]:
    """Yield the transitions that a machine which is switched off, and an agent that is silent, require."""
    if off is not None:
        yield _Leaving(N.OFFLINE, off, "signal: power", () if _is_off_by_intent(node.bmc) else (Source.BMC,))
    if silence is not None:
        yield _Leaving(N.OFFLINE, silence, "timer: heartbeat", (conditions.SILENCE,))


def _by_conditions(node: Node, facts: health.Vitals, now: datetime, config: Policy) -> Iterator[_Leaving]:
    """Yield the transition that the node's conditions require. Conditions that are unknown require none."""
    if not node.conditions:
        return
    standing = tuple(
        each for each in conditions.quarantining(node.conditions) if _is_known(node, each, facts, now, config)
    )
    to = conditions.edge(standing, node.status)
    if to is None:
        return
    # A brake may hold a node only if all its causes are counted; an operator's hold never waits.
    held = conditions.has_source(standing, Source.OPERATOR)
    counted = () if held else tuple(sorted({each.source for each in standing}))
    reason, cause = conditions.in_words(standing), "rule: condition"
    if counted == (Source.AGENT,):
        reason, cause = f"alerts block scheduling: {', '.join(each.id for each in standing)}", "signal: health"
    yield _Leaving(to, reason, cause, counted)


def _is_known(node: Node, condition: Condition, facts: health.Vitals, now: datetime, config: Policy) -> bool:
    """Return whether the source of the condition still states it. If the source is silent, the condition is unknown:
    its agent reports no longer, its machine in MAAS or its BMC cannot be read, or its monitor did not repeat it."""
    if condition.source == Source.AGENT or condition.name == _AGENT_ELSEWHERE:
        return facts.heard
    if condition.source == Source.REGION:
        return node.maas is not None and node.maas.fresh(now, config.observation_ttl)
    if condition.source == Source.BMC:
        return node.bmc.sync_failure is None
    return not condition.is_expired(now)


def _left(node: Node, leaving: _Leaving) -> Decision:
    """Take the node out of service. The commit counts all nodes of the site that would leave service for this cause. If
    the commit refuses the run, the next snapshot shows that the brake keeps the node in service."""
    to = with_fields(node, status=leaving.to)
    free = [each for each in leaving.counted if each not in node.braked]
    writes = (LeaveService(free[0]),) if node.status is N.ACTIVE and free else ()
    return transition(node, to, reason=leaving.reason, cause=leaving.cause, writes=writes)


def _is_off_by_intent(bmc: Bmc) -> bool:
    """Return whether farrier enforces that the machine is off, or switched it shortly before the reading."""
    if bmc.desired_power is PowerState.OFF:
        return True
    asked_at, off_at = bmc.off_asked_at, bmc.power_since or bmc.power_at
    return asked_at is not None and off_at is not None and off_at - asked_at <= _SWITCHES_OFF_WITHIN
