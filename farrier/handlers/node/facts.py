"""The rule that records the conditions which facts about the machine show."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stated import conditions_of
from farrier.model.conditions import CRITICAL
from farrier.model.node import Node
from farrier.model.outcome import Update
from farrier.model.writes import Write

_AT_ONCE = timedelta(0)


def record(node: Node, now: datetime, config: Policy) -> Update[Node, Write] | None:
    """Record the conditions that the facts about the machine show, and end those that the facts disprove."""
    bmc = node.bmc
    if not node.conditions and bmc.sync_failure is None and bmc.failure is None and bmc.health != CRITICAL:
        return None  # nearly every run
    seen = conditions_of(node)
    if seen is node.conditions:
        return None
    changed = ", ".join(sorted({each.name for each in {*node.conditions} ^ {*seen}}))
    return Update(to=replace(node, conditions=seen), reason=f"conditions changed: {changed}", requeue_after=_AT_ONCE)
