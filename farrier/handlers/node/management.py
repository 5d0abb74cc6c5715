"""The management layer: may we talk to the BMC? (model §3)

Enrolled nodes with complete details are verified, by themselves if `auto_manage` or because it was asked for, after the
back-off of the last failure. Verifying only reads; it is left by its result, its deadline, a request that it makes way
for, or a takeover after a crash.

A try is counted in the commit before it, and serves one login: a verification that was cut off anywhere goes back to
`enroll` and is counted anew, so neither a crash nor a request can hide a login from the cap.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never
from urllib.parse import urlsplit

import msgspec

from farrier.config import NodeConfig
from farrier.handlers.node import adopting, power
from farrier.handlers.node.moves import Change, Decision, NodeServices, Outcome, become, change
from farrier.model.actions import ACTIONS
from farrier.model.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, backoff
from farrier.model.management import Management as M
from farrier.model.node import Bmc, Node
from farrier.model.outcome import Step, Wait
from farrier.model.writes import Write

# BMCs lock accounts: never more failed logins than this in this time, whatever is asked for.
LOGIN_CAP = 3
LOGIN_WINDOW = timedelta(minutes=5)
# The first two refusals may pass by themselves; the third in a row is definite and backs off like any failure.
SECOND_LOGIN_AFTER = timedelta(seconds=60)
DEFINITE_REFUSALS = 3

_NEEDS_AN_EDIT = frozenset(failure for failure in BmcFailure if backoff(failure, 1) is None)

# A counted try is used at once. Longer ago than this, something else began with it: every way in which a step can end
# without a word (its lease, its deadline, the drain of a process) takes longer.
TRY_IS_FRESH = timedelta(seconds=10)


def tend(node: Node, now: datetime, config: NodeConfig) -> Decision | None:
    """The next thing to do for the node's BMC; None when it rests. A node that is being deleted is left alone."""
    if node.deleting:
        return None
    match node.management:
        case M.UNMANAGED | M.ERROR:
            return None
        case M.MANAGEABLE:
            return _asked(node, now) or power.tend(node, now, config)
        case M.ADOPT_FAILED:
            return _asked(node, now)
        case M.ENROLL:
            return _enroll(node, now)
        case M.VERIFYING:
            return _verifying(node, now, config)
        case M.ADOPTING:
            return adopting.tend(node, now, config)
        case _ as never:
            assert_never(never)


def begin_verify(node: Node, now: datetime, *, reason: str, cause: str) -> Change | Wait[Write]:
    """Into `verifying`, counting the try; or a wait, if the login cap is reached."""
    bmc = counted(node.bmc, now)
    if bmc.trying is None:
        return Wait(
            reason=f"the BMC saw {LOGIN_CAP} failed logins within {LOGIN_WINDOW}; waits to protect the account",
            look_again=bmc.tries[-LOGIN_CAP] + LOGIN_WINDOW - now,
        )
    return become(node, change(node, management=M.VERIFYING, bmc=bmc), reason=reason, cause=cause)


def counted(bmc: Bmc, now: datetime) -> Bmc:
    """With one more try, to be used now; without one to use, if the login cap is reached."""
    recent = tuple(at for at in bmc.tries if now - at < LOGIN_WINDOW)
    if len(recent) >= LOGIN_CAP:
        return msgspec.structs.replace(bmc, tries=recent, trying=None)
    return msgspec.structs.replace(bmc, tries=(*recent, now), trying=now, next_try_at=None)


def cut_short(node: Node) -> Node:
    """The node as a verification leaves it that makes way for something else. Whether it had logged in is not known,
    so its try stays counted."""
    return change(node, management=M.ENROLL, bmc=msgspec.structs.replace(node.bmc, trying=None))


def missing_detail(node: Node) -> str | None:
    """What the BMC details lack, in words; None when they are complete."""
    if node.bmc_address is None:
        return "no BMC address is given"
    if node.bmc_credential is None:
        return "no BMC credential is given"
    return None


def _enroll(node: Node, now: datetime) -> Decision:
    if node.paused is not None:
        return Wait(reason=f"paused: {node.paused.reason}")
    missing = missing_detail(node)
    if missing is not None:
        if node.bmc.last_error != missing:
            bmc = msgspec.structs.replace(node.bmc, last_error=missing, failure=BmcFailure.INCOMPLETE, next_try_at=None)
            return become(node, change(node, bmc=bmc), reason=missing, cause="rule: BMC details")
        return Wait(reason=f"{missing}; waits for intent set_bmc")
    if not node.auto_manage and node.bmc.asked_at is None:
        return Wait(reason="the BMC details are complete; waits for intent manage")
    if node.bmc.failures > 0 and node.bmc.failure in _NEEDS_AN_EDIT:
        return Wait(reason=f"{node.bmc.last_error}; waits for intent set_bmc or manage")
    if node.bmc.next_try_at is not None and now < node.bmc.next_try_at:
        return Wait(
            reason=f"the BMC could not be verified ({node.bmc.failure}); tried again after its back-off",
            look_again=node.bmc.next_try_at - now,
        )
    asked = node.bmc.asked_at is not None
    return begin_verify(
        node,
        now,
        reason="manage was asked for" if asked else "the BMC details are complete",
        cause="rule: manage" if asked else "rule: auto_manage",
    )


def _asked(node: Node, now: datetime) -> Decision | None:
    """Verification in place, if it was asked for and had to wait for the login cap."""
    if node.bmc.asked_at is None or node.paused is not None:
        return None
    return begin_verify(node, now, reason="manage was asked for", cause="rule: manage")


def _verifying(node: Node, now: datetime, config: NodeConfig) -> Decision:
    if now - node.management_entered_at > config.transient_deadline:
        error = BmcError(BmcFailure.TIMEOUT, "verifying took longer than its deadline")
        # Nobody saw how its login ended, so it counts.
        return _failed(node, now, error, tries=node.bmc.tries, cause="timer: deadline of verifying")
    why = _gives_way(node, now)
    if why is not None:
        return become(node, cut_short(node), reason=why, cause="rule: verify")

    async def verify(services: NodeServices) -> Outcome:
        try:
            reading = await services.bmc.verify(target_of(node))
        except BmcError as error:
            # Only a refused login counts towards the cap; any other end takes this try back.
            tries = node.bmc.tries if error.failure is BmcFailure.AUTH else _earlier_tries(node.bmc)
            return _failed(node, now, error, tries=tries, cause="step: verify")
        return _verified(node, now, reading)

    return Step(name="verify", act=verify, deadline=config.transient_deadline, reads_only=True)


def _gives_way(node: Node, now: datetime) -> str | None:
    """Why this verification must not go on, if it must not."""
    if node.paused is not None:
        return f"paused: {node.paused.reason}"
    request = next((intent for intent in node.intents if ACTIONS[intent.action].interrupts), None)
    if request is not None:
        return f"makes way for intent {request.id} ({request.action})"
    if node.bmc.trying is None or now - node.bmc.trying > TRY_IS_FRESH:
        return "was cut off; begins again"
    return None


def _earlier_tries(bmc: Bmc) -> tuple[datetime, ...]:
    return tuple(at for at in bmc.tries if at != bmc.trying)


def target_of(node: Node) -> BmcTarget:
    """Where to dial. An address may carry the path of the system, for several systems behind one BMC."""
    assert node.bmc_address is not None and node.bmc_credential is not None, "asked for only with both details"
    parts = urlsplit(node.bmc_address)
    path = parts.path.rstrip("/") if parts.scheme else ""
    address = f"{parts.scheme}://{parts.netloc}" if parts.scheme else node.bmc_address
    return BmcTarget(address=address, credential=node.bmc_credential, system_path=path or node.bmc.system_path)


def _verified(node: Node, now: datetime, reading: BmcReading) -> Outcome:
    bmc = Bmc(
        tries=_earlier_tries(node.bmc),
        tried_version=reading.credential_version,
        good_version=reading.credential_version,
        system_path=reading.system_path,
        manager_path=reading.manager_path,
        serial=reading.serial,
        uuid=reading.uuid,
        manufacturer=reading.manufacturer,
        product=reading.model,
        power=reading.power,
        power_at=now,
    )
    return become(
        node,
        change(node, management=M.MANAGEABLE, bmc=bmc),
        reason=f"power and management interface answer; power is {reading.power}",
        cause="step: verify",
    )


def _failed(node: Node, now: datetime, error: BmcError, *, tries: tuple[datetime, ...], cause: str) -> Outcome:
    """Back to `enroll`, with the error kept until it is proven gone."""
    bmc = node.bmc
    failures = bmc.failures + 1 if bmc.failure is error.failure else 1
    pause = _pause(error.failure, failures)
    return become(
        node,
        change(
            node,
            management=M.ENROLL,
            bmc=msgspec.structs.replace(
                bmc,
                last_error=error.detail,
                failure=error.failure,
                failures=failures,
                next_try_at=None if pause is None else now + pause,
                tries=tries,
                trying=None,
                tried_version=error.credential_version or bmc.tried_version,
                power_at=None,
            ),
        ),
        reason=f"{error.failure}: {error.detail}",
        cause=cause,
    )


def _pause(failure: BmcFailure, failures: int) -> timedelta | None:
    if failure is not BmcFailure.AUTH:
        return backoff(failure, failures)
    definite = failures - DEFINITE_REFUSALS + 1
    return SECOND_LOGIN_AFTER if definite < 1 else backoff(failure, definite)
