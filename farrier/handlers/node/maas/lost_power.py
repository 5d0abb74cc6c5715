"""Recognises work of MAAS on a machine that was never switched on.

MAAS commits the status of a machine before it switches the machine on. If the region ends in between, the machine stays
in this status, and MAAS sets no time limit, because it sets the limit after the power action
(maasserver/models/node.py:2573, 2757). A machine that was on stays on, and its system still runs. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.handlers.node.changes import Policy, attempt_began_at, has_fresh_power
from farrier.model.maas.reading import Machine
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.snapshot import Node

# MAAS switches a machine on within a minute. The machine may be off for seconds while it restarts.
_SWITCHED_ON_WITHIN = timedelta(minutes=5)


def is_lost(node: Node, now: datetime, policy: Policy, seen: MaasObservation) -> bool:
    """Return whether MAAS and the BMC still report off minutes after farrier's last request, which MAAS has."""
    bmc = node.bmc
    if not shows_off(seen) or seen.ours is not True or bmc.power is not PowerState.OFF or bmc.power_at is None:
        return False
    return min(seen.read_at, bmc.power_at) >= _due(node) and has_fresh_power(node, now, policy)


def runs_its_system(node: Node, seen: MaasObservation) -> bool:
    """Return whether the node's agent sent a heartbeat minutes after farrier's last request. While MAAS erases the
    disks, another system runs, so such a heartbeat shows that the machine was never restarted. It shows nothing about a
    deployment, which may have installed the agent."""
    heard_at = node.agent.last_heartbeat_at if node.agent is not None else None
    return seen.ours is True and heard_at is not None and min(seen.read_at, heard_at) >= _due(node)


def _due(node: Node) -> datetime:
    begun = attempt_began_at(node.live)
    return max(begun, node.live.memo.asked_at or begun) + _SWITCHED_ON_WITHIN


def shows_off(seen: MaasObservation | Machine) -> bool:
    """Return whether MAAS reports that the machine is off."""
    return seen.power_state == "off"
