"""Switches a machine's power, either for an intent or to enforce a target power.

Each action has two commits. The first commit records the action before it is sent; the second commit records the result
and the answer to the intent. A step sends an action again only if the BMC has refused it. If the end of a step is
unknown, the next step reads the power first. This step sends `on` or `off` again only if the power differs, and never
repeats a `reset`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from farrier.handlers.node import probing
from farrier.handlers.node.logins import counted, has_try, target_of, tries_after, tries_before
from farrier.handlers.node.moves import Change, Decision, NodeServices, Outcome, Policy, transition, with_fields
from farrier.model import duration
from farrier.model.bmc import BmcError, BmcReading, PowerState
from farrier.model.node import Bmc, Node, Switching
from farrier.model.outcome import Step, Update, Wait
from farrier.model.params import PowerRequest
from farrier.model.requests import IntentStatus
from farrier.model.workflow_condition import POWER_IS_FREE
from farrier.model.writes import AnswerIntent, Write

_log = structlog.stdlib.get_logger(__name__)

# A machine that does not keep its target power must not be switched in a loop.
ENFORCE_EVERY = timedelta(minutes=5)

# Slow machines need more than a minute to power off, and the BMC client allows two.
DEADLINE = timedelta(minutes=3)

# An action is sent right after its record. If the record is older than this, an earlier step may have sent the action,
# and a lost reset is better than a second reset.
AT_ONCE = timedelta(seconds=10)

_REACHED = {PowerRequest.ON: PowerState.ON, PowerRequest.OFF: PowerState.OFF, PowerRequest.RESET: PowerState.ON}


def begin(bmc: Bmc, wanted: Switching) -> Bmc | Wait[Write]:
    """Return the facts about the BMC, with `wanted` as the next action, or a wait if the login cap is reached."""
    may = counted(bmc, wanted.at)
    return may if isinstance(may, Wait) else replace(may, switching=wanted)


def proceed(node: Node, now: datetime) -> Decision:
    """Send the action that the last commit recorded, or drop it."""
    wanted = node.bmc.switching
    assert wanted is not None, "the caller has checked this"
    if not _is_wanted(node, wanted):
        given_up = replace(node.bmc, switching=None, trying=None)
        return transition(
            node,
            with_fields(node, bmc=given_up),
            reason="the intent was answered, or farrier no longer enforces this power state",
            cause="rule: power",
        )
    shared = probing.shared(node)
    if shared is not None:
        return _not_done(node, shared, tries=tries_before(node.bmc))
    if not has_try(node.bmc) or now - wanted.at > AT_ONCE:
        again = begin(node.bmc, replace(wanted, at=now, unsure=True))
        if isinstance(again, Wait):
            return _not_done(
                node,
                "farrier does not read the power: too many logins failed or have an unknown result",
                tries=node.bmc.tries,
            )
        return transition(
            node,
            with_fields(node, bmc=again),
            reason="the result of the step was not recorded; farrier reads the power first",
            cause="rule: power",
        )

    async def switch(services: NodeServices) -> Outcome:
        try:
            return await _switched(node, now, wanted, services)
        except BmcError as error:
            if wanted.intent is None:
                _log.warning("power.not_enforced", node=node.name, wanted=wanted.power, error=str(error))
            return _failed(node, error)

    return Step(name="set_power", act=switch, deadline=DEADLINE, reads_only=False, if_interrupted=doubt(node))


def doubt(node: Node) -> Update[Node, Write]:
    """Record that the action may have been sent, because the end of the step is unknown."""
    wanted = node.bmc.switching
    assert wanted is not None, "the caller has checked this"
    unsure = replace(node.bmc, switching=replace(wanted, unsure=True), trying=None)
    return Update(
        to=with_fields(node, bmc=unsure),
        reason=f"the result of power {wanted.power} is unknown",
        requeue_after=timedelta(0),
    )


def enforce(node: Node, now: datetime, config: Policy) -> Change | Wait[Write] | None:
    """If a fresh read proves that the machine's power differs from the target power, switch the machine."""
    bmc, desired = node.bmc, node.bmc.desired_power
    assert desired is not None, "the caller has checked this"
    if bmc.power is PowerState.UNKNOWN or bmc.power_at is None or now - bmc.power_at > config.observation_ttl:
        return None
    differs = f"power is {bmc.power}, target power is {desired}"
    shared = probing.shared(node)
    if shared is not None:
        return Wait(reason=f"{differs}; {shared}")
    if not POWER_IS_FREE.fits(node.workflow):
        return Wait(reason=f"{differs}; the live workflow controls it")
    if bmc.enforced_at is not None and now - bmc.enforced_at < ENFORCE_EVERY:
        requeue_after = bmc.enforced_at + ENFORCE_EVERY - now
        return Wait(
            reason=f"{differs}; farrier switches it at most once in {duration.human(ENFORCE_EVERY)}",
            requeue_after=requeue_after,
        )
    begun = begin(bmc, Switching(power=PowerRequest(desired), at=now))
    if isinstance(begun, Wait):
        return begun
    to = with_fields(node, bmc=replace(begun, enforced_at=now))
    return transition(node, to, reason=differs, cause="rule: desired power")


async def _switched(node: Node, now: datetime, wanted: Switching, services: NodeServices) -> Outcome:
    """Read, switch, and read again. This step never switches another machine, and never repeats a reset."""
    target = target_of(node)
    probing.check_machine(node, await services.bmc.read(target))
    if wanted.intent is None:
        _log.info("power.enforced", node=node.name, found=node.bmc.power, wanted=wanted.power)
    again = wanted.unsure and wanted.power is PowerRequest.RESET
    reading = await services.bmc.set_power(target, wanted.power, send=not again)
    if again or reading.power is not _REACHED[wanted.power]:
        return _not_done(node, f"power is {reading.power} now", tries=tries_before(node.bmc), reading=(reading, now))
    desired = node.bmc.desired_power
    if wanted.intent is not None:
        desired = reading.power if wanted.enforce else None
    bmc = replace(
        probing.refreshed(node.bmc, reading, now),
        switching=None,
        tries=tries_before(node.bmc),
        trying=None,
        desired_power=desired,
        enforce_error=None,
    )
    done = f"power {wanted.power} done: power is {reading.power}"
    return _answered(node, bmc, IntentStatus.ACCEPTED, done)


def _failed(node: Node, error: BmcError) -> Outcome:
    sent = "; the action was sent and may still take effect" if error.sent else ""
    return _not_done(node, f"{error.failure}: {error.detail}{sent}", tries=tries_after(node.bmc, error))


def _not_done(
    node: Node, why: str, *, tries: tuple[datetime, ...], reading: tuple[BmcReading, datetime] | None = None
) -> Outcome:
    """Return the outcome for an action that was not done, or whose result is unknown. The answer to the intent states
    which of these is the case."""
    wanted = node.bmc.switching
    assert wanted is not None, "the caller has checked this"
    known = node.bmc if reading is None else probing.refreshed(node.bmc, *reading)
    bmc = replace(known, switching=None, tries=tries, trying=None)
    if wanted.intent is None:  # no intent gets this text as its answer, so the node stores it
        bmc = replace(bmc, enforce_error=why)
    unknown = (
        "the outcome is unknown, because farrier was interrupted after it may have sent the request; "
        if wanted.unsure
        else ""
    )
    return _answered(node, bmc, IntentStatus.REJECTED, f"set_power {wanted.power}: {unknown}{why}")


def _answered(node: Node, bmc: Bmc, status: IntentStatus, reason: str) -> Change:
    wanted = node.bmc.switching
    assert wanted is not None, "the caller has checked this"
    writes = () if wanted.intent is None else (AnswerIntent(wanted.intent, status, reason),)
    return transition(node, with_fields(node, bmc=bmc), reason=reason, cause="step: set power", writes=writes)


def _is_wanted(node: Node, wanted: Switching) -> bool:
    """Return whether the action is still wanted. The action of an intent is wanted until the intent is answered. Any
    other action is wanted as long as it leads to the node's target power and farrier may switch the power."""
    if wanted.intent is not None:
        return any(intent.id == wanted.intent for intent in node.intents)
    desired = node.bmc.desired_power
    return desired is not None and PowerRequest(desired) is wanted.power and POWER_IS_FREE.fits(node.workflow)
