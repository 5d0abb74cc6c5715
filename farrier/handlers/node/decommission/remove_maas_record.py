"""Stage `remove_maas_record`: deletes the machine from MAAS.

The region would also delete a deployed machine, so this stage deletes only machines without an installed system.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Policy, Settled, StageResult, own, with_fields
from farrier.handlers.node.decommission import machine as machines
from farrier.handlers.node.decommission.machine import in_use, unlock
from farrier.handlers.node.decommission.progress import back_to_removing
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import Delete
from farrier.model.maas.reading import BEING_RELEASED, Machine
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import DecommissionStage
from farrier.protocols import MaasClient


def remove_maas_record(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Delete the record in a full decommission, and also in a storage cleanup if the site removes records. If the node
    is being deleted without any work on its machine, the record is deleted only if farrier created the record and the
    site removes records."""
    return (
        back_to_removing(node)
        or _kept(node, policy)
        or _adopted(node, now, policy)
        or machines.unseen(node)
        or region.with_machine(node, policy, partial(_decide, node), name="remove_maas_record", absent=_removed(node))
    )


def _adopted(node: Node, now: datetime, policy: Policy) -> Done | None:
    done = machines.goal_shown(node, now, policy, DecommissionStage.REMOVE_MAAS_RECORD)
    return None if done is None else replace(done, to=_removed(node).to)


def _kept(node: Node, policy: Policy) -> Done | None:
    why = _why_kept(node, policy)
    return Done(reason=f"MAAS: {why}", skipped=why) if why is not None else None


def _why_kept(node: Node, policy: Policy) -> str | None:
    if node.maas_id is None:
        return "the node is not in MAAS"
    workflow = own(node)
    removes = policy.maas_of(node) is not None and region.site_of(node, policy).release.remove_record
    if workflow.options.untouched is not None and not (node.maas_created and removes):
        return workflow.options.untouched
    if workflow.mode is DecommissionMode.STORAGE_CLEANUP and not removes:
        return "the policy of the site keeps records in MAAS"
    return None


async def _decide(node: Node, machine: Machine, _client: MaasClient) -> Settled | Send:
    if machine.status in BEING_RELEASED:
        return machines.going(machine.status, machine.status_name)
    if not machines.is_unused(machine):
        return _used(node, machine)
    if machine.locked:
        return unlock(node)
    return Send(change=Delete(), reason="delete it", then=_removed(node))


def _used(node: Node, machine: Machine) -> Settled:
    """Keep the record if the machine is in use and the node stays; if the node does not stay, fail."""
    if own(node).mode is DecommissionMode.STORAGE_CLEANUP:
        why = f"the machine is {machine.status_name or machine.status} in MAAS, so farrier keeps its record"
        return Done(reason=why, skipped=why)
    return in_use(
        machine,
        "farrier deletes a machine from MAAS only after its release; find out who uses the machine",
    )


def _removed(node: Node) -> Done:
    """Return a finished stage. Only a deleted node keeps the ID of its machine, for its history."""
    reason = f"machine {node.maas_id} no longer exists in MAAS"
    if own(node).mode is DecommissionMode.FULL_DECOMMISSION:
        return Done(reason=reason)
    return Done(reason=reason, to=with_fields(node, maas_id=None, maas_created=False))
