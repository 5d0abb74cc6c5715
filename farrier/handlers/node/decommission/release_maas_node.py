"""Stage `release_maas_node`: releases the machine in MAAS, and erases its disks if the site requires this.

The stage requests the release one time in each attempt, then waits for an observation of the result. The release
removes the operating system with the agent, so the stage revokes the agent's key.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from msgspec.structs import replace

from farrier.config.sites import Erase
from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, Waiting, is_late, own, with_note
from farrier.handlers.node.decommission import machine as machines
from farrier.handlers.node.decommission.machine import S, in_use, left_alone, unlock
from farrier.handlers.node.maas import lost_power, region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import Abort, MarkBroken, Release
from farrier.model.maas.reading import BEING_RELEASED, Machine
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.snapshot import NO_TIME, Node
from farrier.model.node.stages import DecommissionStage
from farrier.model.node.writes import ForgetAgent, RevokeBootstrap, UseNetworks
from farrier.protocols import MaasClient

_RELEASABLE = frozenset(
    {
        S.ALLOCATED,
        S.RESERVED,
        S.DEPLOYED,
        S.BROKEN,
        S.FAILED_DEPLOYMENT,
        S.RELEASING_FAILED,
        S.FAILED_DISK_ERASING,
    }
)
_ABORTABLE = frozenset({S.DEPLOYING, S.COMMISSIONING, S.TESTING})
_RELEASE = "release"
_ABORT = "abort"
_MARK_BROKEN = "mark broken"


def release_maas_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    return (
        left_alone(node)
        or _adopted(node, now, policy)
        or _not_erasing(node, now, policy)
        or machines.unseen(node, _RELEASE, _ABORT)
        or _still_at_work(node)
        or region.with_machine(
            node, policy, partial(_decide, node, now, policy), name="release_maas_node", absent=_gone(node)
        )
    )


def _adopted(node: Node, now: datetime, policy: Policy) -> Done | None:
    done = machines.goal_shown(node, now, policy, DecommissionStage.RELEASE_MAAS_NODE)
    return _given_back(node, done) if done is not None and machines.is_given_back(node.maas) else done


def _not_erasing(node: Node, now: datetime, policy: Policy) -> StageResult | None:
    """Abort an erasure of disks that never began, because MAAS never restarted the machine, or that does not end; None
    if there is no such erasure. After the abort, the stage releases the machine again."""
    seen = region.latest(node)
    if seen is None or seen.status != S.DISK_ERASING:
        return None
    runs = lost_power.runs_its_system(node, seen)
    never_began = runs or lost_power.is_lost(node, now, policy, seen)
    if not never_began and not _hangs(node, now, policy, seen):
        return None

    async def decide(machine: Machine, _client: MaasClient) -> Settled | Send:
        if machine.status != S.DISK_ERASING or (never_began and not runs and not lost_power.shows_off(machine)):
            return Waiting(reason="waits until farrier has read the machine in MAAS")
        abort = Abort(comment=region.comment(node, _ABORT))
        what = f"abort an erasure that {'never began' if never_began else 'does not end'}"
        return region.asking(node, now, abort, what, record=_ABORT)

    return region.with_machine(node, policy, decide, name="release_maas_node")


def _hangs(node: Node, now: datetime, policy: Policy, seen: MaasObservation) -> bool:
    """Return whether an erasure that an earlier attempt requested has lasted longer than the stage's deadline, because
    MAAS sets no time limit for it. The age of the erasure counts, because `retry_stage` begins the attempts again."""
    if seen.ours is not True or region.was_asked(node, _ABORT) or region.was_asked(node, _RELEASE):
        return False
    memo = node.live.memo
    return is_late(node, now, policy, since=max(seen.since, memo.asked_at or NO_TIME, memo.unpaused_at or NO_TIME))


def _still_at_work(node: Node) -> Waiting | None:
    seen = region.latest(node)
    return _aborting() if seen is not None and seen.status in _ABORTABLE and region.was_asked(node, _ABORT) else None


async def _decide(node: Node, now: datetime, policy: Policy, machine: Machine, _client: MaasClient) -> Settled | Send:
    if machine.status in BEING_RELEASED:  # the response was lost, or another user requested the release
        return machines.going(machine.status, machine.status_name)
    if machine.status in _RELEASABLE:
        if region.was_asked(node, _RELEASE):
            return _not_released(machine)
        if machine.locked:
            return unlock(node)
        return region.asking(node, now, wanted(node, policy), _RELEASE, record=_RELEASE)
    if machine.status in _ABORTABLE:
        if region.was_asked(node, _ABORT):
            return _aborting()
        if machine.locked:
            return unlock(node)
        return region.asking(node, now, Abort(comment=region.comment(node, _ABORT)), _ABORT, record=_ABORT)
    if own(node).memo.erases_again and machine.status == S.FAILED_TESTING and not region.was_asked(node, _RELEASE):
        broken = MarkBroken(comment=region.comment(node, _MARK_BROKEN))
        return region.asking(node, now, broken, _MARK_BROKEN, record=_MARK_BROKEN)
    if machines.is_unused(machine):
        return _released(node, machine)
    return in_use(machine, "only a deployed, allocated, broken or failed machine is released")


def wanted(node: Node, policy: Policy) -> Release:
    """Return the release request, with the site's policy for erasing disks."""
    erase = machines.erase_of(node, policy)
    return Release(
        comment=region.comment(node, _RELEASE),
        erase=erase is not Erase.NONE,
        quick_erase=erase is Erase.QUICK,
        secure_erase=erase is Erase.SECURE,
    )


def _released(node: Node, machine: Machine) -> Done:
    """Return a finished stage for a machine in a released state. If the stage requested no release and the machine is
    on, MAAS did not install the machine, so the node's agent still runs on it."""
    shown = machine.status_name or str(machine.status)
    asked = own(node).memo.asked is not None
    if not asked and machine.status != S.READY and machine.power_state == "on":
        return Done(
            reason=f"nothing to release: the machine is {shown}",
            skipped=f"the machine is {shown} in MAAS, not deployed",
        )
    return _given_back(node, Done(reason=f"released: the machine is {shown}"))


def _given_back(node: Node, done: Done) -> Done:
    """Return the finished stage for a machine that has lost its system. Only a node that stays retired after a reimage
    releases its addresses and memberships here. A node that is installed again keeps them, and `cleanup_secrets`
    releases those of a deleted node."""
    stays_empty = own(node).mode is DecommissionMode.REIMAGE and own(node).options.retire
    return replace(
        done,
        to=with_note(node, released=True, erases_again=False),
        writes=(ForgetAgent(), RevokeBootstrap(), *((UseNetworks(),) if stays_empty else ())),
    )


def _not_released(machine: Machine) -> Failed:
    reason = machine.error_description or machine.status_message or "MAAS gives no reason"
    detail = f"MAAS accepted the release, but the machine is {machine.status_name or machine.status}: {reason[:200]}"
    return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)


def _aborting() -> Waiting:
    """Wait, because MAAS responds to a request for an abort before the abort is complete."""
    return Waiting(reason="waits for MAAS to abort the current work on the machine")


def _gone(node: Node) -> Settled:
    if own(node).mode is DecommissionMode.FULL_DECOMMISSION:
        return Done(reason=f"machine {node.maas_id} no longer exists in MAAS", skipped="no longer in MAAS")
    return region.gone(node)
