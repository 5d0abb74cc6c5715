"""Detects drift: a node is in service, but the state of its machine in MAAS contradicts the node's status. Pure.

A contradiction counts as soon as two readings, a minute apart, show the same state; stale readings prove nothing. If
the node is healthy, the quarantine ends when two readings, a minute apart, have shown that the machine is deployed and
that farrier's user owns it.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import region
from farrier.handlers.node.moves import Policy
from farrier.model import expected
from farrier.model.failures import QuarantineCause
from farrier.model.maas import MaasStatus
from farrier.model.node import Node, Quarantine
from farrier.model.observation import CONFIRMED_AFTER, MaasObservation


def contradiction(node: Node, said: str | None) -> Quarantine | None:
    """Return why this difference requires that the node leaves service. Return None without a difference, or if no
    second reading has confirmed it."""
    seen = node.maas
    if seen is None or said is None or not (_is_foreign(node, seen) or seen.confirmed):
        return None
    gone = seen.state is MaasStatus.ABSENT
    return Quarantine(QuarantineCause.MACHINE_DELETED_UPSTREAM if gone else QuarantineCause.STATE_DISAGREEMENT, said)


def difference(node: Node, now: datetime, config: Policy) -> str | None:
    """Return how the last reading of MAAS differs from the status of the node; None if there is no difference, or no
    fresh reading."""
    seen = node.maas
    if seen is None or (seen.state in expected.IN_SERVICE and seen.ours is not False):
        return None  # the state matches
    if not seen.fresh(now, config.observation_ttl):
        return None
    return expected.disagreement(node.status, seen, foreign=_is_foreign(node, seen))


def _is_foreign(node: Node, seen: MaasObservation) -> bool:
    return node.deployed_here and region.is_foreign(seen)  # ownership is never transient, so one reading is enough


def is_ending(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the last reading shows that the cause of the drift quarantine is gone: MAAS reports that the
    machine is deployed and that farrier's user owns it."""
    seen = node.maas
    if seen is None or not seen.fresh(now, config.observation_ttl):
        return False
    return seen.state in expected.IN_SERVICE and seen.ours is True


def is_over(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether two readings, far enough apart, prove that the cause of the drift quarantine is gone."""
    seen = node.maas
    if seen is None or not is_ending(node, now, config):
        return False
    return seen.tells_of(node.status_entered_at) and seen.fresh_at - seen.since >= CONFIRMED_AFTER
