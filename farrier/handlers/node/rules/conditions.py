"""Turns recorded facts about the machine into conditions: the health that its BMC reports, its identity, and its state
in MAAS.

The facts stay in `Node.bmc` and `Node.maas`; a condition only states what they mean for the node. A condition that an
operator released stays a note as long as the fact lasts. Each run of a node begins with `with_conditions`, so its rules
see the effects that the policy decides, and the run's commit stores them.

A state in MAAS that contradicts a node in service (drift) counts as soon as two readings, a minute apart, show it;
stale readings prove nothing. Its condition ends when two readings, a minute apart, have shown that the machine is
deployed and that farrier's user owns it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import Decision, Policy
from farrier.handlers.node.maas import region
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.bmc import BmcFailure
from farrier.model.machine.expected import DRIFTING, IN_SERVICE, disagreement
from farrier.model.machine.observation import CONFIRMED_AFTER, MaasObservation
from farrier.model.node import conditions
from farrier.model.node.conditions import CRITICAL, Condition, Source, decided
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.node.snapshot import Bmc, Node
from farrier.model.node.writes import Write

_AT_ONCE = timedelta(0)
_BMC_IS_CRITICAL = conditions.stated(Source.BMC, conditions.BMC_HEALTH, "the BMC reports the health Critical")


def with_conditions(node: Node, now: datetime, config: Policy) -> Node:
    """Return the node with the conditions that the facts show, and with their effects; the same object if nothing
    changes. A deletion ignores conditions."""
    bmc, seen, agent = node.bmc, node.maas, node.agent
    if (
        not node.conditions
        and (agent is None or agent.another is None)
        and (seen is None or (seen.ours and seen.state in IN_SERVICE))
        and bmc.sync_failure is None
        and bmc.failure is None
        and bmc.health != CRITICAL
    ):
        return node  # nearly every run
    if node.deleting or node.status is NodeStatus.DELETED:
        return node
    standing = _by_region(node, _by_agent(node, _by_bmc(node)), now, config)
    new = decided(standing, config.conditions, node.site, node.model or bmc.product)
    return node if new is node.conditions else replace(node, conditions=new)


def recorded(stored: Node, node: Node, decision: Decision) -> Decision:
    """Return the decision about the node, which differs from the stored node in its conditions. If the decision writes
    no node, the conditions are written first, and the node runs again at once."""
    match decision:
        case Transition() | Update() | Deleted():
            return decision
        case Step():
            writes: tuple[Write, ...] = ()
        case Wait() | DoNothing():
            writes = decision.writes
        case _ as never:
            assert_never(never)
    changed = ", ".join(sorted({each.name for each in {*stored.conditions} ^ {*node.conditions}}))
    return Update(to=node, reason=f"conditions changed: {changed}", requeue_after=_AT_ONCE, writes=writes)


def _by_bmc(node: Node) -> tuple[Condition, ...]:
    """Return the node's conditions after a comparison with the facts of its BMC; the same object if nothing changes."""
    bmc, seen = node.bmc, node.conditions
    critical, another = bmc.health == conditions.CRITICAL, _another(bmc)
    known = conditions.find(seen, Source.BMC, conditions.BMC_HEALTH)
    if critical and known is None:
        seen = conditions.added(seen, _BMC_IS_CRITICAL)
    elif known is not None and not critical:
        seen = conditions.without(seen, Source.BMC, conditions.BMC_HEALTH)
    known = conditions.find(seen, Source.IDENTITY, conditions.ANOTHER_MACHINE)
    if another is None and known is not None and not _is_proven_since(node, known):
        return seen
    return _with_identity(seen, conditions.ANOTHER_MACHINE, another)


def _by_agent(node: Node, seen: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return these conditions after a look at the machine on which the agent runs; the same object if none changes."""
    return _with_identity(seen, conditions.AGENT_ELSEWHERE, None if node.agent is None else node.agent.another)


def _with_identity(seen: tuple[Condition, ...], id_: str, said: str | None) -> tuple[Condition, ...]:
    """Return these conditions with what a comparison of machines says. A standing one keeps its release."""
    known = conditions.find(seen, Source.IDENTITY, id_)
    if said is None:
        return seen if known is None else conditions.without(seen, Source.IDENTITY, id_)
    if known is None:
        return conditions.added(seen, conditions.stated(Source.IDENTITY, id_, said))
    return seen if known.message == said else conditions.added(seen, replace(known, message=said))


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


def drift(node: Node, now: datetime, config: Policy) -> str | None:
    """Return how the last reading of MAAS contradicts the node's status; None without a fresh contradiction."""
    seen = node.maas
    if seen is None or (seen.state in IN_SERVICE and seen.ours is not False):
        return None  # the state matches
    if not seen.fresh(now, config.observation_ttl):
        return None
    return disagreement(node.status, seen, foreign=_is_foreign(node, seen))


def _by_region(node: Node, stands: tuple[Condition, ...], now: datetime, config: Policy) -> tuple[Condition, ...]:
    """Return these conditions after a comparison with MAAS; the same object if nothing changes."""
    known = next((each for each in stands if each.source == Source.REGION), None)
    new = _contradiction(node, now, config) if node.status in DRIFTING else None
    if new is not None and (known is None or known.id != new.id):
        return conditions.added(conditions.without_source(stands, Source.REGION), new)
    if known is not None and _is_over(node, known, now, config):
        return conditions.without_source(stands, Source.REGION)
    return stands


def drift_ends(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the last reading shows that the machine is deployed and that farrier's user owns it."""
    seen = node.maas
    if seen is None or not seen.fresh(now, config.observation_ttl):
        return False
    return seen.state in IN_SERVICE and seen.ours is True


def _contradiction(node: Node, now: datetime, config: Policy) -> Condition | None:
    """Return the condition of a difference; None without a difference, or if no second reading has confirmed it."""
    seen, said = node.maas, drift(node, now, config)
    if seen is None or said is None or not (_is_foreign(node, seen) or seen.confirmed):
        return None
    id_ = conditions.MACHINE_DELETED if seen.state is MaasStatus.ABSENT else conditions.DISAGREEMENT
    return conditions.stated(Source.REGION, id_, said)


def _is_foreign(node: Node, seen: MaasObservation) -> bool:
    return node.deployed_here and region.is_foreign(seen)  # ownership is never transient, so one reading is enough


def _is_over(node: Node, known: Condition, now: datetime, config: Policy) -> bool:
    """Return whether two readings, far enough apart, prove that the condition has ended."""
    seen = node.maas
    if seen is None or known.since is None or not drift_ends(node, now, config):
        return False
    return seen.tells_of(known.since) and seen.fresh_at - seen.since >= CONFIRMED_AFTER
