"""Detects drift: a node is in service, but the state of its machine in MAAS contradicts the node's status. Pure.

A contradiction counts as soon as two readings, a minute apart, show the same state; stale readings prove nothing. It is
then a condition of source `region`. The condition ends when two readings, a minute apart, have shown that the machine
is deployed and that farrier's user owns it.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Policy
from farrier.handlers.node.maas import region
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine import expected
from farrier.model.machine.observation import CONFIRMED_AFTER, MaasObservation
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Source
from farrier.model.node.snapshot import Node


def difference(node: Node, now: datetime, config: Policy) -> str | None:
    """Return how the last reading of MAAS contradicts the node's status; None without a fresh contradiction."""
    seen = node.maas
    if seen is None or (seen.state in expected.IN_SERVICE and seen.ours is not False):
        return None  # the state matches
    if not seen.fresh(now, config.observation_ttl):
        return None
    return expected.disagreement(node.status, seen, foreign=_is_foreign(node, seen))


def compared(node: Node, stands: tuple[Condition, ...], now: datetime, config: Policy) -> tuple[Condition, ...]:
    """Return these conditions after a comparison with MAAS; the same object if nothing changes."""
    known = next((each for each in stands if each.source == Source.REGION), None)
    new = _contradiction(node, now, config) if node.status in expected.DRIFTING else None
    if new is not None and (known is None or known.id != new.id):
        return conditions.added(conditions.without_source(stands, Source.REGION), new)
    if known is not None and _is_over(node, known, now, config):
        return conditions.without_source(stands, Source.REGION)
    return stands


def is_ending(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the last reading shows that the machine is deployed and that farrier's user owns it."""
    seen = node.maas
    if seen is None or not seen.fresh(now, config.observation_ttl):
        return False
    return seen.state in expected.IN_SERVICE and seen.ours is True


def _contradiction(node: Node, now: datetime, config: Policy) -> Condition | None:
    """Return the condition of a difference; None without a difference, or if no second reading has confirmed it."""
    seen, said = node.maas, difference(node, now, config)
    if seen is None or said is None or not (_is_foreign(node, seen) or seen.confirmed):
        return None
    id_ = conditions.MACHINE_DELETED if seen.state is MaasStatus.ABSENT else conditions.DISAGREEMENT
    return conditions.stated(Source.REGION, id_, said)


def _is_foreign(node: Node, seen: MaasObservation) -> bool:
    return node.deployed_here and region.is_foreign(seen)  # ownership is never transient, so one reading is enough


def _is_over(node: Node, known: Condition, now: datetime, config: Policy) -> bool:
    """Return whether two readings, far enough apart, prove that the condition has ended."""
    seen = node.maas
    if seen is None or known.since is None or not is_ending(node, now, config):
        return False
    return seen.tells_of(known.since) and seen.fresh_at - seen.since >= CONFIRMED_AFTER
