"""Switches the machine of a removed node off through its BMC, if MAAS could not.

A machine without a record in MAAS, or whose power MAAS cannot switch, would stay on, and after the removal nobody would
know it. The machine is switched off after its agent has uninstalled itself. Each attempt reads the machine first, so
that no other machine is switched off.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from farrier.handlers.node.bmc import probing
from farrier.handlers.node.bmc.logins import counted, has_try, target_of, tries_before
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    own,
    with_fields,
)
from farrier.model.intents.params import PowerRequest
from farrier.model.loop.outcome import Wait
from farrier.model.machine.bmc import BmcError, NotYet, PowerState
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Management
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import DecommissionStage

_LOOK_AGAIN_AFTER = timedelta(seconds=5)


def switched_off(node: Node, now: datetime, done: Done) -> StageResult:
    """Return `done` when the machine is off, or may stay on."""
    if not _is_left(node):
        return done
    why = why_not(node)
    if why is not None and own(node).options.leave_on:
        return replace(done, reason=f"{done.reason}; the machine stays on: {why}")
    if why is not None:
        return Failed(failure=FailureClass.POWER_FAILED, detail=f"the machine would stay on: {why}")
    if not has_try(node.bmc):
        may = counted(node.bmc, now)
        if isinstance(may, Wait):
            return Waiting(reason=may.reason, requeue_after=may.requeue_after)
        return StageStep(
            to=with_fields(node, bmc=may), reason="farrier records the login before it switches the machine off"
        )

    async def off(services: NodeServices) -> Settled:
        return await _off(node, now, services, done)

    return ServiceCall(name="power_off_by_bmc", act=off, reads_only=False)


def why_not(node: Node) -> str | None:
    """Return why farrier cannot switch the machine through its BMC; None if it can."""
    if not node.has_bmc:
        return "MAAS cannot switch it off, and the node has no BMC"
    if node.management is not Management.MANAGEABLE or node.bmc.system_path is None:
        reason = f" ({node.bmc.last_error})" if node.bmc.last_error else ""
        return f"its BMC is {node.management}{reason}, so farrier may not use it"
    return probing.shared(node)


def _is_left(node: Node) -> bool:
    """Return whether MAAS did not switch the machine off, and no operator adopted the state that it is in."""
    workflow = own(node)
    if workflow.options.untouched is not None or workflow.memo.adopted:
        return False
    return any(skipped.stage == DecommissionStage.POWER_OFF_MAAS_NODE for skipped in workflow.skipped)


async def _off(node: Node, now: datetime, services: NodeServices, done: Done) -> Settled:
    target = target_of(node)
    try:
        probing.check_machine(node, await services.bmc.read(target))
        reading = await services.bmc.set_power(target, PowerRequest.OFF)
    except NotYet:
        return Waiting(reason="waits until the machine is off", requeue_after=_LOOK_AGAIN_AFTER)
    except BmcError as error:
        return Failed(failure=FailureClass.POWER_FAILED, detail=f"{error.failure}: {error.detail}")
    if reading.power is not PowerState.OFF:
        return Waiting(
            reason=f"waits until the machine is off; power is {reading.power}", requeue_after=_LOOK_AGAIN_AFTER
        )
    known = replace(probing.refreshed(node.bmc, reading, now), tries=tries_before(node.bmc), trying=None)
    return replace(done, reason=f"{done.reason}; the machine is off", to=with_fields(done.to or node, bmc=known))
