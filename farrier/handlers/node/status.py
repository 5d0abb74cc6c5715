"""The status layer: transitions that belong to no workflow, because of heartbeats, alerts, enrolments and drift.

Stale facts prove nothing and cause no transition. The rules also apply to a paused node, because a pause does not stop
observation.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node import drift
from farrier.handlers.node.moves import Decision, Policy, transition, unproven_health, vitals, with_fields
from farrier.model import expected, health
from farrier.model.failures import QuarantineCause
from farrier.model.node import Decommission, Node, Onboarding, Quarantine
from farrier.model.outcome import EndsBy, Transition, Wait
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import OnboardingMode
from farrier.model.writes import AnswerIntent, LeaveService, Write

# A transition between these statuses changes no other part of the snapshot.
_ALONE = frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED})


def after(node: Node, moved: Transition[Node, Write], now: datetime) -> Node | None:
    """Return the snapshot of the node after a transition that changes only its status. Return None after any other
    transition, because it changes more of the snapshot, such as the workflow, the tasks or the BMC."""
    to = moved.to
    if not {node.status, to.status} <= _ALONE or node.workflow is not None:
        return None
    if not all(isinstance(write, AnswerIntent | LeaveService) for write in moved.writes):
        return None
    if to != replace(node, status=to.status, quarantine=to.quarantine, ever_active=to.ever_active):
        return None
    answered = {write.intent for write in moved.writes if isinstance(write, AnswerIntent)}
    return replace(
        to,
        version=node.version + 1,
        status_entered_at=now,
        stored_power_at=None,
        braked_at=None,
        intents=tuple(intent for intent in node.intents if intent.id not in answered),
    )


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


def active(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Take the node out of service if it is silent, if it has blocking alerts, or if MAAS contradicts its status."""
    facts = vitals(node, now, config)
    silence = health.silent(facts)
    if silence is not None:
        return _leaving(node, with_fields(node, status=N.OFFLINE), config, reason=silence, cause="timer: heartbeat")
    if facts.heard and facts.blocking:
        return _blocked(node, facts)
    why = drift.contradiction(node, now, config)
    if why is not None:
        return _drifted(node, why, config)
    said = drift.unconfirmed(node, now, config)
    if said is None:
        return None
    return Wait(reason=f"{said}; a second reading has to confirm this", ends_by=EndsBy.CONFIRMATION, rests=True)


def offline(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Quarantine the node if there is a cause for a quarantine; return the node to `active` when it is proven
    healthy."""
    if node.quarantine is not None and node.workflow is None:
        return transition(
            node,
            with_fields(node, status=N.QUARANTINED),
            reason=f"still quarantined ({node.quarantine.cause}): {node.quarantine.reason}",
            cause="rule: quarantine",
        )
    why = drift.contradiction(node, now, config)
    if why is not None:
        return _drifted(node, why, config)
    facts = vitals(node, now, config)
    unproven = health.unproven(facts)
    if unproven is None:
        if isinstance(node.workflow, Decommission):
            return None  # healthy again, but being decommissioned
        return transition(
            node,
            with_fields(node, status=N.ACTIVE, ever_active=True),
            reason="the node is healthy again",
            cause="signal: health",
        )
    if facts.heard and facts.blocking:
        return _blocked(node, facts)
    return Wait(reason=f"offline: {unproven}", ends_by=EndsBy.PERSON, rests=True)


def quarantined(node: Node, now: datetime, config: Policy) -> Decision:
    """Return the node to `active` when the cause is proven gone. The handler calls this rule only without a live
    workflow and without a deletion."""
    cause = node.quarantine
    if cause is None:
        return Wait(reason="quarantined; an operator has to end the quarantine", ends_by=EndsBy.PERSON, rests=True)
    gone = _what_is_gone(node, cause, now, config)
    usable = node.ever_onboarded and not node.not_scrubbed
    if gone is not None and usable and unproven_health(node, now, config) is None:
        return transition(
            node,
            with_fields(node, status=N.ACTIVE, quarantine=None, ever_active=True),
            reason=gone,
            cause="signal: health",
        )
    ends_by = EndsBy.ITSELF if usable and _ends_soon(node, cause, now, config) else EndsBy.PERSON
    return Wait(reason=f"quarantined ({cause.cause}): {cause.reason}", ends_by=ends_by, rests=True)


def _what_is_gone(node: Node, cause: Quarantine, now: datetime, config: Policy) -> str | None:
    """Return the proof that the cause of the quarantine is gone. Return None if the cause may remain, or if only an
    operator can decide. For alerts, the node's health is the proof."""
    if cause.cause is QuarantineCause.HEALTH:
        return "the alerts that caused the quarantine have ended"
    if cause.cause in expected.CAUSES and drift.is_over(node, now, config):
        return "MAAS reports the machine as deployed again"
    return None


def _ends_soon(node: Node, cause: Quarantine, now: datetime, config: Policy) -> bool:
    """Return whether the present facts end the quarantine as soon as a later reading confirms them."""
    return cause.cause in expected.CAUSES and drift.is_ending(node, now, config)


def _drifted(node: Node, why: Quarantine, config: Policy) -> Decision:
    return _leaving(
        node, with_fields(node, status=N.QUARANTINED, quarantine=why), config, reason=why.reason, cause="signal: MAAS"
    )


def _leaving(node: Node, to: Node, config: Policy, *, reason: str, cause: str) -> Decision:
    """Take the node out of service because of silence or of the state in MAAS. The commit counts all nodes of the site
    that would leave service. If the commit refuses the run, the next snapshot shows that the brake keeps the node in
    service."""
    if node.status is not N.ACTIVE:
        return transition(node, to, reason=reason, cause=cause)
    if node.braked_at is not None:
        return Wait(
            reason=f"the brake of the site keeps the node in service: {reason}",
            ends_by=EndsBy.PERSON,
            requeue_after=health.BRAKE_RETRY,
        )
    return transition(node, to, reason=reason, cause=cause, writes=(LeaveService(),))


def _blocked(node: Node, facts: health.Vitals) -> Decision:
    names = ", ".join(alert.id for alert in facts.blocking)
    reason = f"alerts block scheduling: {names}"
    return transition(
        node,
        with_fields(node, status=N.QUARANTINED, quarantine=Quarantine(QuarantineCause.HEALTH, reason)),
        reason=reason,
        cause="signal: health",
    )
