"""Drift: a node in service whose machine in MAAS is not what it has to be (000 §6.2, model §6).

Pure, on what the region's observer wrote down. One reading is no proof, and what is stale proves nothing: a
contradiction counts once two readings a minute apart show the same state, and a quarantine for it is lifted once the
machine has been deployed again for as long, by us, without a word to the contrary, and the node is healthy. A machine
that we deployed and somebody else holds is none of ours any more, whatever its state; what was put into service by hand
may be anybody's.
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
    """Why a node in service has to leave it; None while nothing proves that it must."""
    seen = node.maas
    if seen is None or (seen.state in expected.IN_SERVICE and seen.ours is not False):
        return None  # as it has to be
    if not seen.fresh(now, config.observation_ttl):
        return None
    foreign = node.deployed_here and region.is_foreign(seen)  # no passing state, so one reading is enough
    said = expected.disagreement(node.status, seen, foreign=foreign)
    if said is None or not (foreign or seen.confirmed):
        return None
    gone = seen.state is MaasStatus.ABSENT
    return Quarantine(QuarantineCause.MACHINE_DELETED_UPSTREAM if gone else QuarantineCause.STATE_DISAGREEMENT, said)


def is_over(node: Node, now: datetime, config: Policy) -> bool:
    """Whether what drift quarantined the node for is proven gone. What somebody else deployed is not this node, and
    while nobody knows who holds the machine it is not proven to be."""
    seen = node.maas
    if seen is None or not seen.fresh(now, config.observation_ttl):
        return False
    if seen.state not in expected.IN_SERVICE or seen.ours is not True:
        return False
    return seen.tells_of(node.status_entered_at) and seen.fresh_at - seen.since >= CONFIRMED_AFTER
