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
from farrier.model.observation import CONFIRMED_AFTER


def contradiction(node: Node, now: datetime, config: Policy) -> Quarantine | None:
    """Return why the node must leave service; None unless an observation of MAAS proves a contradiction."""
    seen = node.maas
    if seen is None or (seen.state in expected.IN_SERVICE and seen.ours is not False):
        return None  # the state matches
    if not seen.fresh(now, config.observation_ttl):
        return None
    foreign = node.deployed_here and region.is_foreign(seen)  # ownership is never transient, so one reading is enough
    said = expected.disagreement(node.status, seen, foreign=foreign)
    if said is None or not (foreign or seen.confirmed):
        return None
    gone = seen.state is MaasStatus.ABSENT
    return Quarantine(QuarantineCause.MACHINE_DELETED_UPSTREAM if gone else QuarantineCause.STATE_DISAGREEMENT, said)


def is_over(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the cause of the drift quarantine is proven gone: MAAS reports that the machine is deployed and
    that farrier's user owns it."""
    seen = node.maas
    if seen is None or not seen.fresh(now, config.observation_ttl):
        return False
    if seen.state not in expected.IN_SERVICE or seen.ours is not True:
        return False
    return seen.tells_of(node.status_entered_at) and seen.fresh_at - seen.since >= CONFIRMED_AFTER
