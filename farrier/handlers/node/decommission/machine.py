"""Shared code of the stages that release a node's machine in MAAS.

Each attempt requests a change only one time. The commit after the request records it (`region.asking`). Until
a later observation of the machine, the stage requests nothing else. A request whose response was lost is not recorded,
so the stage reads the machine and decides by the result.
"""

from __future__ import annotations

from farrier.config.sites import Erase
from farrier.handlers.node.changes import Done, Failed, Policy, Waiting, own
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import Unlock
from farrier.model.maas.reading import BEING_RELEASED, Machine, StatusNumber
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Node

S = StatusNumber

_NEVER_INSTALLED = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING})


def left_alone(node: Node) -> Done | None:
    """Return a finished stage if the node is not in MAAS, or if the decommission does no work on the machine; otherwise
    None."""
    why = own(node).options.untouched or ("the node is not in MAAS" if node.maas_id is None else None)
    return Done(reason=f"MAAS: {why}", skipped=why) if why is not None else None


def erase_of(node: Node, policy: Policy) -> Erase:
    """Return how MAAS erases the disks. If the region cleans the machine, unset means `secure`."""
    erase = region.site_of(node, policy).release.erase
    if erase is not None:
        return erase
    return Erase.SECURE if own(node).options.cleaned_by is CleaningBy.REGION else Erase.NONE


def unlock(node: Node) -> Failed | Send:
    """Unlock the machine if the decommission has `force`; otherwise fail, because an operator locked it in MAAS."""
    if own(node).options.force:
        return Send(change=Unlock(comment=region.comment(node, "unlock")), reason="unlock it")
    return Failed(
        failure=FailureClass.UPSTREAM_REFUSED,
        detail=f"machine {node.maas_id} is locked in MAAS, so farrier does not change it; unlock it there, "
        "or decommission the node with force",
    )


def unseen(node: Node, *whats: str) -> Waiting | None:
    """Return the wait before the next read of the machine; None if the stage may read the machine now."""
    asked_at = own(node).memo.asked_at
    seen = region.latest(node)
    asked = asked_at if any(region.was_asked(node, what) for what in whats) else None
    if asked is not None and (seen is None or not seen.tells_of(asked)):
        return Waiting(reason="waits until farrier has read the machine in MAAS")
    if seen is not None and seen.status in BEING_RELEASED:
        return going(seen.status, seen.status_name)
    return None


def going(status: int, name: str | None) -> Waiting:
    return Waiting(reason=f"waits for MAAS to release the machine: {name or status}")


def is_unused(machine: Machine) -> bool:
    """Return whether MAAS shows that no system is installed on the machine and nothing runs on it. If so, farrier may
    switch the machine off and delete it."""
    if machine.status in _NEVER_INSTALLED:
        return True
    return machine.status in (S.FAILED_TESTING, S.BROKEN, S.MISSING, S.RETIRED) and not machine.osystem


def in_use(machine: Machine, instead: str) -> Failed:
    """Return the failure for a machine that is not in a released state."""
    shown = machine.status_name or str(machine.status)
    return Failed(
        failure=FailureClass.STATE_DISAGREEMENT,
        detail=f"machine {machine.system_id} is {shown!r} in MAAS; {instead}",
    )
