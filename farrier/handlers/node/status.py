"""The status layer: what heartbeats, alerts and enrolments do to a node (edges of model §2 that no workflow owns).

Facts that are stale prove nothing and move nothing. A paused node's status is followed like any other's: to observe is
not to act.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from farrier.handlers.node import drift
from farrier.handlers.node.moves import Decision, Policy, proven_healthy, transition, vitals, with_fields
from farrier.model import expected, health
from farrier.model.failures import QuarantineCause
from farrier.model.health import Healthy, Unhealthy
from farrier.model.node import Decommission, Node, Onboarding, Quarantine
from farrier.model.outcome import Wait
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import OnboardingMode
from farrier.model.writes import LeaveService


def follow(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Move the status if what was observed says so; None when it stands."""
    match node.status:
        case N.BOOTSTRAP_ISSUED:
            return _bootstrap_issued(node, now)
        case N.ACTIVE:
            return _active(node, now, config)
        case N.OFFLINE:
            return _offline(node, now, config)
        case N.QUARANTINED:
            return _quarantined(node, now, config)
        case N.ENROLLING | N.DRAINING | N.RETIRED | N.REMOVING | N.DELETED:
            return None  # the workflow's to move, or an operator's
        case _ as never:
            assert_never(never)


def _bootstrap_issued(node: Node, now: datetime) -> Decision:
    if node.agent is None:
        return Wait(reason="waits for the agent to enrol with its bootstrap token", rests=True)
    return transition(
        node,
        with_fields(node, status=N.ENROLLING, workflow=Onboarding(mode=OnboardingMode.MANUAL, mode_given_at=now)),
        reason="the agent enrolled with its bootstrap token",
        cause="signal: agent enrolled",
    )


def _active(node: Node, now: datetime, config: Policy) -> Decision | None:
    facts = vitals(node, now, config)
    silence = health.silent(facts, now, offline_after=config.offline_after)
    if silence is not None:
        return _leaving(node, with_fields(node, status=N.OFFLINE), config, reason=silence, cause="timer: heartbeat")
    return _blocked(node, facts) or _drifted(node, now, config)


def _offline(node: Node, now: datetime, config: Policy) -> Decision | None:
    if node.quarantine is not None and node.workflow is None:
        return transition(
            node,
            with_fields(node, status=N.QUARANTINED),
            reason=f"still quarantined ({node.quarantine.cause}): {node.quarantine.reason}",
            cause="rule: quarantine",
        )
    drifted = _drifted(node, now, config)
    if drifted is not None:
        return drifted
    proof = proven_healthy(node, now, config)
    match proof:
        case Healthy() if isinstance(node.workflow, Decommission):
            return None  # healthy again, but on its way out
        case Healthy():
            return transition(
                node,
                with_fields(node, status=N.ACTIVE, ever_active=True),
                reason="healthy again",
                cause="signal: health",
            )
        case Unhealthy():
            facts = vitals(node, now, config)
            if _reporting(facts, now, config) and (blocked := _blocked(node, facts)) is not None:
                return blocked
            return Wait(reason=f"offline: {proof.reason}", rests=True)
        case _ as never:
            assert_never(never)


def _quarantined(node: Node, now: datetime, config: Policy) -> Decision | None:
    if node.workflow is not None or node.deleting:
        return None  # it is retried, undone or finished there
    cause = node.quarantine
    if cause is None:
        return Wait(reason="quarantined; waits for intent release or decommission", rests=True)
    gone = _what_is_gone(node, cause, now, config)
    if gone is not None and node.ever_onboarded and not node.not_scrubbed:
        proof = proven_healthy(node, now, config)
        if isinstance(proof, Healthy):
            return transition(
                node,
                with_fields(node, status=N.ACTIVE, quarantine=None, ever_active=True),
                reason=gone,
                cause="signal: health",
            )
    return Wait(reason=f"quarantined ({cause.cause}): {cause.reason}", rests=True)


def _what_is_gone(node: Node, cause: Quarantine, now: datetime, config: Policy) -> str | None:
    """What no longer speaks against the node, of the very cause that quarantined it; None if it may still be there, or
    only an operator can tell. For alerts health is the proof."""
    if cause.cause is QuarantineCause.HEALTH:
        return "the alerts that quarantined it are gone"
    if cause.cause in expected.CAUSES and drift.is_over(node, now, config):
        return "MAAS says again that it is deployed"
    return None


def _drifted(node: Node, now: datetime, config: Policy) -> Decision | None:
    """The move to quarantine, if MAAS contradicts."""
    why = drift.contradiction(node, now, config)
    if why is None:
        return None
    return _leaving(
        node, with_fields(node, status=N.QUARANTINED, quarantine=why), config, reason=why.reason, cause="signal: MAAS"
    )


def _leaving(node: Node, to: Node, config: Policy, *, reason: str, cause: str) -> Decision:
    """The move that silence or MAAS asks for. The commit counts all nodes of the site that would leave service, and a
    run that it refuses finds the brake on in its next snapshot."""
    if node.status is not N.ACTIVE:
        return transition(node, to, reason=reason, cause=cause)
    if node.braked_at is not None:
        return Wait(reason=f"kept in service by the brake of its site: {reason}", requeue_after=config.brake_window / 2)
    return transition(node, to, reason=reason, cause=cause, writes=(LeaveService(),))


def _blocked(node: Node, facts: health.Vitals) -> Decision | None:
    """The move to quarantine, if the last report has alerts that block scheduling."""
    blocking = facts.report.blocking if facts.report is not None and not facts.agentless else ()
    if not blocking:
        return None
    names = ", ".join(alert.id for alert in blocking)
    reason = f"alerts block scheduling: {names}"
    return transition(
        node,
        with_fields(node, status=N.QUARANTINED, quarantine=Quarantine(QuarantineCause.HEALTH, reason)),
        reason=reason,
        cause="signal: health",
    )


def _reporting(facts: health.Vitals, now: datetime, config: Policy) -> bool:
    """True when the last report is fresh enough to act on."""
    at = facts.last_heartbeat_at
    return at is not None and now - at <= config.offline_after
