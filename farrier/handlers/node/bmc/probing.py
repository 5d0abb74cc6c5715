"""Evaluates a probe: one read of a BMC for a verification or an adoption.

A verification and an adoption differ only in the states after the probe. This module checks whether the machine is the
recorded machine, and records successes and failures. The module also begins and stops verifications, for both rules and
responses.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.bmc.logins import counted, pause, target_of_address, tries_before
from farrier.handlers.node.changes import Change, NodeServices, transition, with_fields
from farrier.model.intents.actions import ACTIONS
from farrier.model.loop.outcome import Update, Wait
from farrier.model.machine import identity
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, PowerState
from farrier.model.machine.identity import Another, Identity, Same, Unproven
from farrier.model.node.layers import TRANSIENT, Management
from farrier.model.node.snapshot import Bmc, Intent, Node
from farrier.model.node.writes import Write

# How long `auto_manage` ignores a BMC after an operator stopped its verification: as long as the longest pause after
# a BMC did not respond.
_CANCELLED_FOR = timedelta(minutes=5)


def begin_verify(node: Node, now: datetime, *, reason: str, cause: str) -> Change | Wait[Write]:
    """Start `verifying` and count the try, or wait if the login cap is reached. Until a verification succeeds, further
    ones follow, and the clock of `enroll` runs from the first."""
    bmc = counted(replace(node.bmc, pending_at=node.bmc.pending_at or node.bmc.asked_at or now), now)
    if isinstance(bmc, Wait):
        return bmc
    return transition(node, with_fields(node, management=Management.VERIFYING, bmc=bmc), reason=reason, cause=cause)


def deferred(node: Node, now: datetime) -> Node:
    """Return the node after an operator stopped its verification, requested or not; `auto_manage` then pauses."""
    return with_fields(
        node,
        bmc=replace(node.bmc, asked_at=None, pending_at=None, failures=0, next_try_at=now + _CANCELLED_FOR),
    )


def interrupted(node: Node) -> Node:
    """Return the node after its verification was interrupted. It may have logged in, so its try stays recorded."""
    return with_fields(node, management=Management.ENROLL, bmc=replace(node.bmc, trying=None))


def recorded(node: Node) -> Identity:
    """Return the recorded identity of the machine. The identity comes from the first reading of the machine's BMC and
    from the registered MAC addresses. While the machine is to be replaced, only the registered addresses count."""
    known = _binding(node.bmc)
    return replace(known, registered=tuple(sorted(node.macs)), manufacturer=None)


def recorded_by_bmc(bmc: Bmc) -> Identity:
    """Return the identity of the machine that the node has or had, as its BMC reported it."""
    return bmc.former or Identity(serial=bmc.serial, uuid=bmc.uuid, macs=bmc.macs, manufacturer=bmc.manufacturer)


async def verified(node: Node, services: NodeServices, *, must_prove: bool) -> BmcReading:
    """Verify the BMC at the node's address, and check that the machine is the recorded machine and belongs to no other
    node. The probe also reads MAC addresses, unless a serial number is recorded and is enough. Raises only `BmcError`
    and `LeaseLost`."""
    macs = must_prove or not _binding(node.bmc).has_serial
    reading = await services.bmc.verify(target_of_address(node), macs=macs)
    check_machine(node, reading, must_prove=must_prove)
    holder = await services.identities.holder(node.id, identity.kept(_binding(node.bmc), _seen(reading)))
    if holder is not None:
        raise BmcError(BmcFailure.IDENTITY_TAKEN, holder.text, credential_version=reading.credential_version)
    return reading


def check_machine(node: Node, reading: BmcReading, *, must_prove: bool = False) -> None:
    """Raise `BmcError` if the reading is of another machine; with `must_prove`, also if no recorded value matches."""
    verdict = identity.compare(recorded(node), _seen(reading))
    version = reading.credential_version
    match verdict:
        case Another():
            raise BmcError(BmcFailure.IDENTITY_MISMATCH, verdict.text, credential_version=version)
        case Unproven() if must_prove:
            detail = f"the machine cannot be identified: {verdict.text}"
            raise BmcError(BmcFailure.UNSUPPORTED, detail, credential_version=version)
        case Same() | Unproven():
            pass
        case _ as never:
            assert_never(never)


def shared(node: Node) -> str | None:
    """Return why farrier may not switch the power: other nodes recorded the same machine; otherwise None."""
    if not node.same_machine:
        return None
    return f"nodes {', '.join(node.same_machine)} recorded the same machine; only one node may keep the BMC details"


def learnt(bmc: Bmc, reading: BmcReading, now: datetime) -> Bmc:
    """Return the BMC after a successful probe, without errors and with all values of the reading. The first recorded
    identity does not change, unless the machine is to be replaced."""
    who = identity.kept(_binding(bmc), _seen(reading))
    return Bmc(
        tries=tries_before(bmc),
        others=bmc.others,
        tried_version=reading.credential_version,
        good_version=reading.credential_version,
        good_before=bmc.good_before if bmc.good_version == reading.credential_version else bmc.good_version,
        verified_at=now,
        system_path=reading.system_path,
        serial=who.serial,
        uuid=who.uuid,
        macs=who.macs,
        manufacturer=who.manufacturer,
        product=reading.model,
        health=reading.health,
        power=reading.power,
        power_at=now,
        power_since=bmc.power_since,
        off_asked_at=bmc.off_asked_at,
        desired_power=bmc.desired_power,
        enforced_at=bmc.enforced_at,
        enforce_error=_still_not_kept(bmc, reading.power),
        switching=bmc.switching,
    )


def replaced(bmc: Bmc, reading: BmcReading) -> str:
    """Return a text about the replacement of the machine that this reading completes, or an empty text."""
    had, seen = recorded_by_bmc(bmc), _seen(reading)
    if bmc.replacing is None or not had.is_known or isinstance(identity.compare(had, seen), Same):
        return ""
    return f"the machine was replaced: {identity.described(had)} before, {identity.described(seen)} now; "


def refreshed(bmc: Bmc, reading: BmcReading, now: datetime) -> Bmc:
    """Return the BMC after a successful regular read."""
    return replace(
        bmc,
        tried_version=reading.credential_version,
        # A BMC may still accept the former version, which does not replace the newer one (`rotation`).
        good_version=bmc.good_version if reading.credential_version == bmc.good_before else reading.credential_version,
        system_path=reading.system_path,
        power=reading.power,
        power_at=now,
        enforce_error=_still_not_kept(bmc, reading.power),
        health=reading.health,
        sync_failures=0,
        sync_failure=None,
        sync_error=None,
        next_sync_at=None,
        watched_at=None,
        watched_version=None,
    )


def unfinished(node: Node) -> Update[Node, Write]:
    """Return the outcome of an interrupted probe, which may have logged in: its try stays recorded, but is used up."""
    spent = replace(node.bmc, trying=None)
    return Update(
        to=replace(node, bmc=spent), reason="the probe was interrupted", requeue_after=timedelta(0), quiet=True
    )


def interrupting(node: Node) -> Intent | None:
    """Return the intent that interrupts a probe; not one that conflicts with another BMC, which is refused."""
    return next((asked for asked in node.intents if ACTIONS[asked.action].interrupts and asked.conflict is None), None)


def recover(node: Node) -> Update[Node, Write] | None:
    """Decide what follows a run whose result is unknown. A login try that it may have used counts as used."""
    if node.management not in TRANSIENT or node.bmc.trying is None or node.deleting:
        return None
    return unfinished(node)


def failed(bmc: Bmc, error: BmcError, now: datetime, *, tries: tuple[datetime, ...]) -> Bmc:
    """Return the BMC after a failed probe. The error stays until its cause is proven gone. A failure without a login is
    not counted again."""
    of_class = max(bmc.of_class + error.dialled, 1) if bmc.failures and bmc.failure is error.failure else 1
    patience = pause(error, of_class)
    return replace(
        bmc,
        last_error=error.detail,
        failure=error.failure,
        failures=max(bmc.failures + error.dialled, 1),
        of_class=of_class,
        next_try_at=None if patience is None else now + patience,
        tries=tries,
        trying=None,
        tried_version=error.credential_version or bmc.tried_version,
        power=PowerState.UNKNOWN,
        power_at=None,
    )


def _still_not_kept(bmc: Bmc, power: PowerState) -> str | None:
    """Return why power could not be enforced. The reason stays until the power is as requested or enforcement ends."""
    return None if bmc.desired_power in (None, power) else bmc.enforce_error


def _binding(bmc: Bmc) -> Identity:
    """Return the identity that the machine at the BMC must have."""
    return Identity() if bmc.replacing is not None else recorded_by_bmc(bmc)


def _seen(reading: BmcReading) -> Identity:
    return Identity(serial=reading.serial, uuid=reading.uuid, macs=reading.macs, manufacturer=reading.manufacturer)
