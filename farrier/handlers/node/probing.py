"""What a read-only pass over a BMC means for what is known of it (model §3).

Verifying and adopting make the same pass and differ in where it leads; this is what they share: whether it is the
recorded machine, what is remembered of a success, and what of a failure. How a verification begins and is stopped is
here too, because the rule and the requests do both.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import assert_never

import structlog
from msgspec.structs import replace

from farrier.errors import LeaseLost
from farrier.handlers.node.logins import capped, counted, pause, target_of_address, tries_before
from farrier.handlers.node.moves import Change, NodeServices, transition, with_fields
from farrier.model import identity
from farrier.model.actions import ACTIONS
from farrier.model.bmc import BmcError, BmcFailure, BmcReading, PowerState
from farrier.model.identity import Another, Identity, Same, Unproven
from farrier.model.management import TRANSIENT, Management
from farrier.model.node import Bmc, Intent, Node
from farrier.model.outcome import Update, Wait
from farrier.model.writes import Write

_log = structlog.stdlib.get_logger(__name__)

# How long `auto_manage` leaves a BMC alone whose verification an operator stopped: as long as one that never answers.
_CANCELLED_FOR = timedelta(minutes=5)


def begin_verify(node: Node, now: datetime, *, reason: str, cause: str) -> Change | Wait[Write]:
    """Into `verifying`, counting the try; or a wait, if the login cap is reached."""
    bmc = counted(node.bmc, now)
    if bmc.trying is None:
        reason, requeue_after = capped(bmc, now)
        return Wait(reason=reason, requeue_after=requeue_after)
    return transition(node, with_fields(node, management=Management.VERIFYING, bmc=bmc), reason=reason, cause=cause)


def begin_asked(node: Node, now: datetime) -> Change | Wait[Write] | None:
    """Verify a manageable node, if an intent requested it and had to wait for the login cap."""
    if node.bmc.asked_at is None:
        return None
    return begin_verify(node, now, reason="manage was requested", cause="rule: manage")


def put_off(node: Node, now: datetime) -> Node:
    """The node whose verification an operator stopped: the request for it ends, and `auto_manage` waits a while."""
    return with_fields(node, bmc=replace(node.bmc, asked_at=None, failures=0, next_try_at=now + _CANCELLED_FOR))


def cut_short(node: Node) -> Node:
    """The node as a verification leaves it that makes way for something else. Whether it had logged in is not known,
    so its try stays counted."""
    return with_fields(node, management=Management.ENROLL, bmc=replace(node.bmc, trying=None))


def recorded(node: Node) -> Identity:
    """Who the machine is by our records: what its BMC said first, and the MAC addresses it was registered with."""
    bmc = node.bmc
    return Identity(serial=bmc.serial, uuid=bmc.uuid, macs=tuple(sorted({*bmc.macs, *node.macs})))


async def verified(node: Node, services: NodeServices) -> BmcReading:
    """A pass over the node's BMC, from where its address leads. Interfaces are read where nothing else that the BMC
    said of the machine is recorded. Raises `BmcError` and nothing else."""
    known = replace(_of_bmc(node.bmc), macs=()).is_known
    return await called(services.bmc.verify(target_of_address(node), macs=not known))


async def called(call: Awaitable[BmcReading], *, changes: bool = False) -> BmcReading:
    """What the BMC client returned. An exception that it should not raise is a failure like any other, of class
    internal: it is recorded, counted and backed off from; the loss of the right to act is the run's. A call that
    `changes` something may have sent it then."""
    try:
        return await call
    except (BmcError, LeaseLost):
        raise
    except Exception as error:
        # Without the exception's own text, which may quote a header.
        trace = "".join(traceback.format_tb(error.__traceback__))
        _log.error("bmc.client_bug", error=type(error).__name__, traceback=trace)
        detail = f"unexpected {type(error).__name__} in the BMC client; the log has the traceback"
    raise BmcError(BmcFailure.INTERNAL, detail, sent=changes)


def refusal(node: Node, reading: BmcReading, *, must_prove: bool) -> BmcError | None:
    """Why a pass that succeeded must not count: no real power state, or another machine. With `must_prove` something
    recorded has to match; without, only a contradiction counts."""
    if reading.power is PowerState.UNKNOWN:
        return _error(reading, BmcFailure.PROTOCOL, "the BMC reports a power state other than on and off")
    verdict = identity.compare(recorded(node), _seen(reading))
    match verdict:
        case Another():
            return _error(reading, BmcFailure.IDENTITY_MISMATCH, verdict.text)
        case Unproven() if must_prove:
            return _error(reading, BmcFailure.UNSUPPORTED, f"the machine cannot be identified: {verdict.text}")
        case Same() | Unproven():
            return None
        case _ as never:
            assert_never(never)


async def judged(node: Node, reading: BmcReading, services: NodeServices, *, must_prove: bool) -> BmcError | None:
    """`refusal`, also of a machine that belongs to another node: nothing of that is recorded here."""
    refused = refusal(node, reading, must_prove=must_prove)
    if refused is not None:
        return refused
    holder = await services.identities.holder(node.id, identity.kept(_of_bmc(node.bmc), _seen(reading)))
    return None if holder is None else _error(reading, BmcFailure.IDENTITY_TAKEN, holder.text)


def shared(node: Node) -> str | None:
    """Why its power is not ours to switch, if other nodes recorded the same machine."""
    if not node.same_machine:
        return None
    return f"nodes {', '.join(node.same_machine)} recorded the same machine; use clear_bmc at all but one of them"


def learnt(bmc: Bmc, reading: BmcReading, now: datetime) -> Bmc:
    """After a pass that succeeded: no error, and all that was read. The identity that was recorded first stays."""
    who = identity.kept(_of_bmc(bmc), _seen(reading))
    return Bmc(
        tries=tries_before(bmc),
        others=bmc.others,
        tried_version=reading.credential_version,
        good_version=reading.credential_version,
        good_before=bmc.good_before if bmc.good_version == reading.credential_version else bmc.good_version,
        verified_at=now,
        system_path=reading.system_path,
        manager_path=reading.manager_path,
        serial=who.serial,
        uuid=who.uuid,
        macs=who.macs,
        manufacturer=who.manufacturer,
        product=reading.model,
        health=reading.health,
        power=reading.power,
        power_at=now,
        desired_power=bmc.desired_power,
        enforced_at=bmc.enforced_at,
        enforce_error=_still_not_kept(bmc, reading.power),
        switching=bmc.switching,
    )


def refreshed(bmc: Bmc, reading: BmcReading, now: datetime) -> Bmc:
    """After a regular read that succeeded."""
    return replace(
        bmc,
        tried_version=reading.credential_version,
        # One that was good before is still, and takes no turns with the newer one (`rotation`).
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
    """What is kept of a pass that was cut short: whether it had logged in is not known, so its try stays counted and
    serves no other."""
    spent = replace(node.bmc, trying=None)
    return Update(
        to=replace(node, bmc=spent), reason="the probe was interrupted", requeue_after=timedelta(0), quiet=True
    )


def interrupting(node: Node) -> Intent | None:
    """The request that a pass makes way for. One for another node's BMC is refused, and costs no login."""
    return next((asked for asked in node.intents if ACTIONS[asked.action].interrupts and asked.conflict is None), None)


def recover(node: Node) -> Update[Node, Write] | None:
    """After a run with an unknown end: an attempt that it may have used is spent."""
    if node.management not in TRANSIENT or node.bmc.trying is None or node.deleting:
        return None
    return unfinished(node)


def failed(bmc: Bmc, error: BmcError, now: datetime, *, tries: tuple[datetime, ...]) -> Bmc:
    """After a pass that failed: the error stays until it is proven gone. What was not dialled is no further failure."""
    of_class = bmc.of_class + error.dialled if bmc.failures and bmc.failure is error.failure else 1
    patience = pause(error, max(of_class, 1))
    return replace(
        bmc,
        last_error=error.detail,
        failure=error.failure,
        failures=max(bmc.failures + error.dialled, 1),
        of_class=max(of_class, 1),
        next_try_at=None if patience is None else now + patience,
        tries=tries,
        trying=None,
        tried_version=error.credential_version or bmc.tried_version,
        power_at=None,
    )


def _still_not_kept(bmc: Bmc, power: PowerState) -> str | None:
    """Record why power could not be enforced, until it is as requested or enforcement ends."""
    return None if bmc.desired_power in (None, power) else bmc.enforce_error


def _of_bmc(bmc: Bmc) -> Identity:
    return Identity(serial=bmc.serial, uuid=bmc.uuid, macs=bmc.macs, manufacturer=bmc.manufacturer)


def _seen(reading: BmcReading) -> Identity:
    return Identity(serial=reading.serial, uuid=reading.uuid, macs=reading.macs, manufacturer=reading.manufacturer)


def _error(reading: BmcReading, failure: BmcFailure, detail: str) -> BmcError:
    return BmcError(failure, detail, credential_version=reading.credential_version)
