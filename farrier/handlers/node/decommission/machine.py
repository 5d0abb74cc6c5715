"""Shared code of the stages that release a node's machine in MAAS, and the goals that MAAS shows for these stages.

Each attempt requests a change only one time. The commit after the request records it (`region.asking`). Until
a later observation of the machine, the stage requests nothing else. A request whose response was lost is not recorded,
so the stage reads the machine and decides by the result.

After intent `adopt_observed_state`, a stage whose goal MAAS shows has nothing to do; drain, cleaning, validation and
secrets always run. A reading proves nothing if it is stale or another user owns the machine. In this case, the stage
itself reads the machine.
"""

from __future__ import annotations

from datetime import datetime

from farrier.config.sites import Erase
from farrier.handlers.node.changes import Done, Failed, Policy, Waiting, own
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import Unlock
from farrier.model.maas.reading import BEING_RELEASED, Machine, StatusNumber
from farrier.model.maas.reading import MaasStatus as M
from farrier.model.machine.expected import goals_left, shows_goal
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Decommission, Node
from farrier.model.node.stages import DecommissionStage as D

S = StatusNumber

_NEVER_INSTALLED = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING})


def left_alone(node: Node) -> Done | None:
    """Return a finished stage if the node is not in MAAS, or if no work is done on its machine; otherwise None."""
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
    """Return whether nothing is installed or runs on the machine, so that farrier may switch it off and delete it."""
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


def stages_left(workflow: Decommission) -> tuple[D, ...]:
    """Return the stages in MAAS that the workflow still has to complete, including the current stage."""
    options = workflow.options
    return goals_left(workflow.mode, workflow.stage, options.leave_out, options.cleaned_by)


def goal_shown(node: Node, now: datetime, policy: Policy, *stages: D) -> Done | None:
    """Return a finished stage if MAAS still shows the stages' goals, which an operator adopted; otherwise None."""
    seen = node.maas
    if not own(node).memo.adopted or seen is None or not seen.fresh(now, policy.observation_ttl):
        return None
    if region.is_foreign(seen) or not all(shows_goal(seen.state, seen.power_state, stage) for stage in stages):
        return None
    why = f"MAAS reports {seen.state}, and an operator adopted this state"
    return Done(reason=why, skipped=why)


def is_given_back(seen: MaasObservation | None) -> bool:
    """Return whether MAAS has removed the node's system and its agent. If the machine is new and running, this is
    unproven, because MAAS may never have installed the machine."""
    return seen is not None and (seen.state is M.READY or (seen.state is M.NEW and seen.power_state != "on"))
