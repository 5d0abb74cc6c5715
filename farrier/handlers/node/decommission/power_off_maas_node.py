"""Stage `power_off_maas_node`: switches the released machine off.

A machine that MAAS did not install stays on, because its agent must still uninstall itself.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from farrier.handlers.node.changes import Done, Policy, Settled, StageResult, Waiting
from farrier.handlers.node.decommission import machine as machines
from farrier.handlers.node.decommission.machine import in_use, left_alone, unlock
from farrier.handlers.node.decommission.progress import pointless
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import PowerOff
from farrier.model.maas.reading import BEING_RELEASED, Machine
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import DecommissionStage
from farrier.protocols import MaasClient

_OFF = "off"
_POWER_OFF = "power off"
# MAAS cannot switch machines with these power types; only an operator can.
_NOT_SWITCHED = (None, "", "manual")


def power_off_maas_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    if left_alone(node) is None and pointless(node) is None:
        why = "MAAS did not install the machine, and the node's agent still has to uninstall itself"
        return Done(reason=f"the machine stays on: {why}", skipped=why)
    gone = Done(reason=f"machine {node.maas_id} no longer exists in MAAS", skipped="no longer in MAAS")
    return (
        left_alone(node)
        or machines.goal_shown(node, now, policy, DecommissionStage.POWER_OFF_MAAS_NODE)
        or machines.unseen(node, _POWER_OFF)
        or _still_on(node)
        or region.with_machine(node, policy, partial(_decide, node, now), name="power_off_maas_node", absent=gone)
    )


def _still_on(node: Node) -> Waiting | None:
    """Wait while observations after the request do not show the machine off; None if the stage must read it."""
    seen = region.latest(node)
    if seen is None or seen.power_state == _OFF or not region.was_asked(node, _POWER_OFF):
        return None
    return _waiting() if seen.status is not None else None


async def _decide(node: Node, now: datetime, machine: Machine, _client: MaasClient) -> Settled | Send:
    if machine.status in BEING_RELEASED:
        return machines.going(machine.status, machine.status_name)
    if not machines.is_unused(machine):
        return in_use(machine, "farrier switches the machine off only after its release")
    if machine.power_state == _OFF:
        return Done(reason="the machine is off")
    if machine.power_type in _NOT_SWITCHED:
        why = f"MAAS cannot switch the machine: its power type is {machine.power_type or '(none)'}"
        return Done(reason=why, skipped=why)
    if region.was_asked(node, _POWER_OFF):
        return _waiting()
    if machine.locked:
        return unlock(node)
    return region.asking(node, now, PowerOff(comment=region.comment(node, _POWER_OFF)), _POWER_OFF, record=_POWER_OFF)


def _waiting() -> Waiting:
    return Waiting(reason="waits for MAAS to report the machine as off")
