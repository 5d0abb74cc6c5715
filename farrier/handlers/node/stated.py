"""Turns recorded facts about the machine into conditions: the health that its BMC reports, and its identity.

The facts stay in `Node.bmc`; a condition only states what they mean for the node. An effect that an operator lowered
stays lowered as long as the fact lasts.
"""

from __future__ import annotations

from farrier.model import conditions
from farrier.model.bmc import BmcFailure
from farrier.model.conditions import Condition, Effect, Source
from farrier.model.management import Management
from farrier.model.node import Bmc, Node

_BMC_IS_CRITICAL = Condition(
    source=Source.BMC, id=conditions.HEALTH, message="the BMC reports the health Critical", effect=Effect.NOTE
)


def conditions_of(node: Node) -> tuple[Condition, ...]:
    """Return the node's conditions after a comparison with the facts; the same object if nothing changes."""
    bmc, seen = node.bmc, node.conditions
    critical, another = bmc.health == conditions.CRITICAL, _another(bmc)
    known = conditions.find(seen, Source.BMC, conditions.HEALTH)
    if critical and known is None:
        seen = conditions.added(seen, _BMC_IS_CRITICAL)
    elif known is not None and not critical:
        seen = conditions.without(seen, Source.BMC, conditions.HEALTH)
    known = conditions.find(seen, Source.IDENTITY, conditions.ANOTHER_MACHINE)
    if another is not None and (known is None or known.message != another):
        effect = Effect.QUARANTINE if known is None else known.effect
        new = Condition(source=Source.IDENTITY, id=conditions.ANOTHER_MACHINE, message=another, effect=effect)
        seen = conditions.added(seen, new)
    elif known is not None and another is None and _is_proven_since(node, known):
        seen = conditions.without(seen, Source.IDENTITY, conditions.ANOTHER_MACHINE)
    return seen


def _another(bmc: Bmc) -> str | None:
    """Return how the machine behind the BMC differs from the recorded one, as the last read or verification found. A
    first verification compares with registered values only, and quarantines nothing."""
    if bmc.sync_failure is BmcFailure.IDENTITY_MISMATCH:
        return bmc.sync_error or ""
    if bmc.failure is BmcFailure.IDENTITY_MISMATCH and bmc.verified_at is not None:
        return bmc.last_error or ""
    return None


def _is_proven_since(node: Node, known: Condition) -> bool:
    """Return whether a later read has found the recorded machine. Any other failure proves nothing."""
    read_at = node.bmc.power_at
    if node.management is not Management.MANAGEABLE or node.bmc.sync_failure is not None or read_at is None:
        return False
    return known.since is None or read_at > known.since
