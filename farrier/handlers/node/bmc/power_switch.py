"""Switches a machine's power, either for an intent or to enforce a target power.

Each action has two commits. The first commit records the action before it is sent; the second commit records the result
and the answer to the intent. A step sends an action again only if the BMC has refused it. If the end of a step is
unknown, the next step reads the power first. This step sends `on` or `off` again only if the power differs, and never
repeats a `reset`.

If an action was sent and has no effect yet, a commit between these two records this. From then on, steps that only read
wait for the effect, so that urgent intents are answered meanwhile. A graceful `off` has its own deadline, after which
farrier forces the power off. A graceful `reset` is a graceful `off` and then `on`, because no read of a BMC shows
whether an operating system has restarted.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from farrier.handlers.node.bmc import probing
from farrier.handlers.node.bmc.logins import counted, has_try, target_of, tries_after, tries_before
from farrier.handlers.node.changes import Change, Decision, NodeServices, Outcome, Policy, transition, with_fields
from farrier.model import duration
from farrier.model.intents.actions import IN_USE
from farrier.model.intents.params import PowerMode, PowerRequest, SetPower
from farrier.model.intents.requests import IntentStatus
from farrier.model.intents.workflow_condition import POWER_IS_FREE
from farrier.model.loop.outcome import Step, Update, Wait
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, NotYet, PowerState, raised
from farrier.model.node.snapshot import Bmc, Node, Switching
from farrier.model.node.writes import AnswerIntent, Write

_log = structlog.stdlib.get_logger(__name__)

# A machine that does not keep its target power must not be switched in a loop.
ENFORCE_EVERY = timedelta(minutes=5)
KEEPS_TRYING = f"farrier enforces it from now on, and tries at most once in {duration.human(ENFORCE_EVERY)}"

# Slow machines need more than a minute to power off, and the BMC client allows two.
DEADLINE = timedelta(minutes=3)

# An action is sent right after its record. If the record is older than this, an earlier step may have sent the action,
# and a lost reset is better than a second reset.
AT_ONCE = timedelta(seconds=10)

# The slowest machines take a minute to switch off, and a minute to switch on.
TAKES = timedelta(minutes=2)
# The BMC client reads for some seconds in each call, so the pause between two calls is short.
_LOOK_AGAIN_AFTER = timedelta(seconds=1)
# While a machine is being switched, its BMC may be slow, restart its web server, or send an incomplete response.
_PASSES = (BmcFailure.UNREACHABLE, BmcFailure.TIMEOUT, BmcFailure.PROTOCOL)
# With these failures, a BMC refuses a graceful shutdown that the machine cannot do; a forced one may still work.
_NO_GRACE = (BmcFailure.PROTOCOL, BmcFailure.REFUSED, BmcFailure.UNSUPPORTED)

# With these failures, every further attempt fails until an operator changes something.
_FOR_GOOD = (BmcFailure.UNSUPPORTED, BmcFailure.IDENTITY_MISMATCH, BmcFailure.IDENTITY_TAKEN)

_REACHED = {PowerRequest.ON: PowerState.ON, PowerRequest.OFF: PowerState.OFF, PowerRequest.RESET: PowerState.ON}


def requested(node: Node, now: datetime, config: Policy, params: SetPower, *, intent: int | None = None) -> Switching:
    """Return the action for these parameters. By default, a machine that may be in use is switched off gracefully."""
    mode = params.mode or (PowerMode.GRACEFUL if node.status in IN_USE else PowerMode.FORCE)
    graceful = mode is PowerMode.GRACEFUL and params.power is not PowerRequest.ON
    has = config.force_power_after if params.force_after is None else timedelta(seconds=params.force_after)
    return Switching(
        power=params.power,
        at=now,
        intent=intent,
        enforce=params.enforce,
        part=PowerRequest.OFF if graceful and params.power is PowerRequest.RESET else None,
        force_at=now + has if graceful else None,
    )


def is_busy(bmc: Bmc) -> bool:
    """Return whether another action must end first. An intent replaces an action that only enforces and was sent."""
    wanted = bmc.switching
    return wanted is not None and (wanted.intent is not None or wanted.sent_at is None)


def begin(bmc: Bmc, wanted: Switching) -> Bmc | Wait[Write]:
    """Return the facts about the BMC, with `wanted` as the next action, or a wait if the login cap is reached."""
    may = counted(bmc, wanted.at)
    if isinstance(may, Wait):
        return may
    return replace(may, switching=wanted, off_asked_at=wanted.at if wanted.power is PowerRequest.OFF else None)


def proceed(node: Node, now: datetime, config: Policy) -> Decision:
    """Send the action that the last commit recorded, wait for its effect, or drop it."""
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
        return _not_done(node, shared, tries=tries_before(node.bmc), for_good=True)
    if wanted.sent_at is not None:
        return _await(node, now, wanted, config)
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
            if isinstance(error, NotYet) or (
                wanted.force_at is not None and error.failure in _NO_GRACE and not error.sent
            ):
                return _sent(node, now, wanted, error)
            return _failed(node, error)

    return Step(
        name="set_power",
        act=switch,
        deadline=DEADLINE,
        reads_only=False,
        if_interrupted=doubt(node),
        if_failed=_raised(node),
    )


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


def _sent(node: Node, now: datetime, wanted: Switching, error: BmcError) -> Change:
    """Record that the action was sent and has no effect yet."""
    waits = replace(node.bmc, switching=replace(wanted, sent_at=now, unsure=False))
    return transition(node, with_fields(node, bmc=waits), reason=error.detail, cause="step: set power")


def _await(node: Node, now: datetime, wanted: Switching, config: Policy) -> Decision:
    """Read until the action has its effect. After the deadline, force a graceful action, or give up."""
    assert wanted.sent_at is not None, "the caller has checked this"
    if now >= (wanted.force_at or wanted.sent_at + TAKES):
        return _force(node, now, wanted) if wanted.force_at is not None else _in_vain(node, wanted)
    if not has_try(node.bmc):
        again = counted(node.bmc, now)
        if isinstance(again, Wait):
            return again
        return Update(to=with_fields(node, bmc=again), reason=_waits(wanted), requeue_after=timedelta(0), quiet=True)

    async def look(services: NodeServices) -> Outcome:
        try:
            reading = await services.bmc.set_power(target_of(node), wanted.asked, send=False)
            probing.check_machine(node, reading)
        except BmcError as error:
            if isinstance(error, NotYet) or error.failure in _PASSES:
                return Wait(reason=_waits(wanted), requeue_after=_LOOK_AGAIN_AFTER)
            error.sent = True
            return _failed(node, error)
        if reading.power is not _REACHED[wanted.asked]:
            return Wait(reason=_waits(wanted), requeue_after=_LOOK_AGAIN_AFTER)
        return _reached(node, now, wanted, reading)

    spent = Update[Node, Write](
        to=with_fields(node, bmc=replace(node.bmc, trying=None)),
        reason=_waits(wanted),
        requeue_after=timedelta(0),
        quiet=True,
    )
    return Step(
        name="await_power",
        act=look,
        deadline=config.transient_deadline,
        reads_only=True,
        if_interrupted=spent,
        if_failed=_raised(node),
    )


def _waits(wanted: Switching) -> str:
    then = "; then farrier forces it off" if wanted.force_at is not None else ""
    until = f" until {wanted.force_at:%H:%M:%S} UTC" if wanted.force_at is not None else ""
    return f"power {wanted.asked} was sent; farrier waits for the machine{until}{then}"


def _force(node: Node, now: datetime, wanted: Switching) -> Decision:
    begun = begin(node.bmc, replace(wanted, at=now, sent_at=None, force_at=None, forced=True, unsure=False))
    if isinstance(begun, Wait):
        return begun
    reason = "the machine did not shut down in time; farrier forces its power off"
    return transition(node, with_fields(node, bmc=begun), reason=reason, cause="rule: power")


def _in_vain(node: Node, wanted: Switching) -> Outcome:
    why = (
        f"{BmcFailure.TIMEOUT}: power is still not {_REACHED[wanted.asked]} {duration.human(TAKES)} after power "
        f"{wanted.asked} was sent; the action was sent and may still take effect"
    )
    return _not_done(node, why, tries=tries_before(node.bmc))


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
    begun = begin(bmc, requested(node, now, config, SetPower(power=PowerRequest(desired))))
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
    again = wanted.unsure and wanted.asked is PowerRequest.RESET
    graceful = wanted.force_at is not None
    reading = await services.bmc.set_power(target, wanted.asked, graceful=graceful, send=not again)
    if again or reading.power is not _REACHED[wanted.asked]:
        return _not_done(node, f"power is {reading.power} now", tries=tries_before(node.bmc), reading=(reading, now))
    return _reached(node, now, wanted, reading)


def _reached(node: Node, now: datetime, wanted: Switching, reading: BmcReading) -> Outcome:
    """Answer the intent, or begin the second part of the action."""
    known = probing.refreshed(node.bmc, reading, now)
    if wanted.part is PowerRequest.OFF:
        on = replace(wanted, part=PowerRequest.ON, at=now, force_at=None, sent_at=None, unsure=False)
        off = with_fields(node, bmc=replace(known, switching=on))
        return transition(
            node, off, reason=f"power is {reading.power}; farrier switches it on", cause="step: set power"
        )
    desired = node.bmc.desired_power
    if wanted.intent is not None:
        desired = reading.power if wanted.enforce else None
    bmc = replace(
        known, switching=None, tries=tries_before(node.bmc), trying=None, desired_power=desired, enforce_error=None
    )
    forced = " (forced, because the machine did not shut down in time)" if wanted.forced else ""
    done = f"power {wanted.power} done: power is {reading.power}{forced}"
    return _answered(node, bmc, IntentStatus.ACCEPTED, done)


def _raised(node: Node) -> Change:
    """Return the outcome of a step that raised an unexpected error, perhaps after it sent the action."""
    error = raised()
    error.sent = True
    return _failed(node, error)


def _failed(node: Node, error: BmcError) -> Change:
    sent = "; the action was sent and may still take effect" if error.sent else ""
    return _not_done(
        node,
        f"{error.failure}: {error.detail}{sent}",
        tries=tries_after(node.bmc, error),
        for_good=error.failure in _FOR_GOOD,
    )


def _not_done(
    node: Node,
    why: str,
    *,
    tries: tuple[datetime, ...],
    reading: tuple[BmcReading, datetime] | None = None,
    for_good: bool = False,
) -> Change:
    """Return the outcome for an action that was not done, or whose result is unknown. The answer to the intent states
    which of these is the case, and whether farrier tries again. With `for_good`, another try cannot succeed."""
    wanted = node.bmc.switching
    assert wanted is not None, "the caller has checked this"
    known = node.bmc if reading is None else probing.refreshed(node.bmc, *reading)
    bmc = replace(known, switching=None, tries=tries, trying=None)
    if wanted.unsure:
        why = f"the outcome is unknown, because farrier was interrupted after it may have sent the request; {why}"
    if wanted.intent is None:  # no intent gets this text as its answer, so the node stores it
        return _answered(
            node, replace(bmc, enforce_error=why), IntentStatus.REJECTED, f"set_power {wanted.power}: {why}"
        )
    if wanted.enforce and not for_good:
        reason = f"set_power {wanted.power}: not done yet: {why}; {KEEPS_TRYING}"
        return _answered(node, kept(bmc, wanted.power, why, wanted.at), IntentStatus.ACCEPTED, reason)
    target = bmc.desired_power
    stays = "; farrier does not try again" if target is None else f"; farrier still enforces power {target}"
    return _answered(node, bmc, IntentStatus.REJECTED, f"set_power {wanted.power}: {why}{stays}")


def kept(bmc: Bmc, power: PowerRequest, why: str, at: datetime | None) -> Bmc:
    """Return the BMC with `power` as its target power, which the last attempt, at `at`, did not reach."""
    return replace(bmc, desired_power=PowerState(power), enforced_at=at, enforce_error=why)


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
