"""Reads the power, health and identity of manageable nodes, with one regular read of the BMC.

A read changes no layer; `power_switch` handles enforced and requested power. A failed read is shown in the node's wait
reason and counted in a metric; farrier retries it after growing pauses. The last good reading keeps its time, and
becomes stale. The moment of a node's read within the interval depends on the node's ID, so that farrier does not read
all nodes at the same time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from farrier.errors import CredentialError
from farrier.handlers.node.bmc import power_switch, probing, rotation
from farrier.handlers.node.bmc.logins import (
    LONGEST_PATIENCE,
    SECOND_LOGIN_AFTER,
    counted,
    has_try,
    is_shared,
    target_of,
    target_of_address,
    tries_before,
)
from farrier.handlers.node.changes import (
    Change,
    Decision,
    NodeServices,
    Outcome,
    Policy,
    has_fresh_power,
    transition,
    with_fields,
)
from farrier.model.loop.outcome import DoNothing, Step, Update, Wait
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, PowerState, raised
from farrier.model.node.failures import ends_by
from farrier.model.node.layers import Management
from farrier.model.node.snapshot import Bmc, Node
from farrier.model.node.writes import Write

# Pauses after a failed read: the first pause, doubled after each failure, up to the longest pause.
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=5)
_AT_MOST_DOUBLED = 4

READ = "read_power"
# The answers at a path that is not the path of the machine's system any more.
_MAY_BE_RENAMED = (BmcFailure.UNSUPPORTED, BmcFailure.PROTOCOL, BmcFailure.IDENTITY_MISMATCH)
# The moments of the interval in which nodes are read. Reads that begin together cost less than apart.
_MOMENTS = 120
# The multiples of this ratio, modulo 1, are spread evenly for any number of nodes.
_GOLDEN = 0.6180339887498949
# Another such ratio, so that nodes that are read in the same second are not stored in the same minute.
_SILVER = 0.41421356237309515
_AT_ONCE = timedelta(0)


def tend(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Return the next action for a manageable node's power, or None."""
    if node.paused is not None:
        return None
    bmc = node.bmc
    if bmc.switching is not None:
        return power_switch.proceed(node, now, config)
    if bmc.asked_at is not None:
        return probing.begin_verify(node, now, reason="manage was requested", cause="rule: manage")
    due = next_read(node, config)
    if now >= due:
        return _read(node, now, config)
    if bmc.sync_failure is not None:
        watched = rotation.watch_sync(node, now, config)
        return watched or Wait(reason=_unreadable(bmc), ends_by=ends_by(bmc.sync_failure), requeue_after=due - now)
    if bmc.desired_power in (None, bmc.power):
        return DoNothing(requeue_after=due - now)
    enforced = power_switch.enforce(node, now, config)
    if isinstance(enforced, Wait):
        return replace(enforced, requeue_after=min(enforced.requeue_after or due - now, due - now))
    return enforced or DoNothing(requeue_after=due - now)


def observe(node: Node, now: datetime, config: Policy) -> Decision:
    """Read the power if a read is due. Never switch it, because the node is held after a restore."""
    due = next_read(node, config)
    return _read(node, now, config) if now >= due else DoNothing(requeue_after=due - now)


def recover(node: Node, now: datetime, *, step: str) -> Decision | None:
    """Decide what follows a step with this name whose result was not recorded. If the step may have sent a login, the
    login counts. Return None if the step cannot have sent a login, or if other logins already reach the login cap."""
    if node.management is not Management.MANAGEABLE or node.deleting:
        return None
    if node.bmc.switching is not None:
        return power_switch.doubt(node)
    if not has_try(node.bmc) and (step != READ or isinstance(counted(node.bmc, now), Wait)):
        return None
    return _unseen(node, now)


def next_read(node: Node, config: Policy) -> datetime:
    """Return the time of the next read of the node's BMC."""
    bmc, interval = node.bmc, config.power_sync_interval
    if bmc.next_sync_at is not None:
        return bmc.next_sync_at
    if bmc.power_at is None:
        return node.management_entered_at
    # Each node has a separate moment within the interval, but the moment never follows directly after the last read.
    seconds = interval.total_seconds()
    earliest = bmc.power_at.timestamp() + seconds / 2
    phase = int(node.id * _GOLDEN % 1 * _MOMENTS) / _MOMENTS * seconds
    return bmc.power_at + timedelta(0, seconds / 2 + (phase - earliest) % seconds)


def was_just_read(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the last read began within the time of one read, so that the next may wait."""
    at = node.bmc.power_at
    reads = node.management is Management.MANAGEABLE and node.bmc.switching is None
    return reads and at is not None and now - at <= config.transient_deadline


# A step that begins in memory estimates the time of the database. A time that is further ahead is older than a clock
# that was set back.
_ESTIMATED = timedelta(seconds=1)


def confirmed(stored: Node, remembered: Node, now: datetime) -> Node:
    """Return the stored node, with the time of the last confirmation if the confirmed state is the stored one."""
    stored_at, at = stored.bmc.power_at, remembered.bmc.power_at
    if stored_at is None or at is None or not stored_at < min(at, now) or at - now > _ESTIMATED:
        return stored
    bmc = replace(stored.bmc, power_at=min(at, now))
    # Logins of other nodes are not part of a reading.
    is_same = _asked(stored) == _asked(remembered) and bmc == replace(
        remembered.bmc, others=bmc.others, power_at=bmc.power_at
    )
    return replace(stored, bmc=bmc, stored_power_at=stored_at) if is_same else stored


def _asked(node: Node) -> tuple[object, ...]:
    """Return the fields that decide whether and where farrier reads the power."""
    return node.management, node.bmc_address, node.bmc_credential


def _read(node: Node, now: datetime, config: Policy) -> Decision:
    if not has_try(node.bmc):
        may = counted(node.bmc, now)
        if isinstance(may, Wait):
            return may
        if is_shared(node):
            # The try is stored first, because other processes may be about to log in at the same BMC.
            return Update(
                to=with_fields(node, bmc=may),
                reason="farrier records the login attempt before it reads the power",
                requeue_after=_AT_ONCE,
                quiet=True,
            )
    # The node for the case that the login is not refused.
    clean = with_fields(node, bmc=replace(node.bmc, tries=tries_before(node.bmc), trying=None))

    async def read(services: NodeServices) -> Outcome:
        try:
            rotated = await rotation.verify_if_new(clean, now, services.credentials)
            if rotated is not None:
                return rotated
            reading = await _reading(node, services)
            if reading.power is PowerState.UNKNOWN:
                detail = "the BMC reports a power state other than on and off"
                raise BmcError(BmcFailure.PROTOCOL, detail, credential_version=reading.credential_version)
        except CredentialError as error:
            # A credential store may recover by itself; a reference without a secret does not.
            failure = BmcFailure.UNREACHABLE if error.temporary else BmcFailure.INCOMPLETE
            return _failed(node, now, BmcError(failure, str(error), dialled=False), config)
        except BmcError as error:
            return _failed(node, now, error, config)
        return _stored(node, with_fields(clean, bmc=probing.refreshed(clean.bmc, reading, now)), now, config)

    return Step(
        name=READ,
        act=read,
        deadline=config.transient_deadline,
        reads_only=True,
        if_interrupted=partial(_unseen, node, now),
        if_failed=lambda: _failed(node, now, raised(), config),
        observes=node.bmc.sync_failure is None and not has_try(node.bmc),
    )


async def _reading(node: Node, services: NodeServices) -> BmcReading:
    """Read the machine. New firmware may have renamed the path of its system, so if the path does not lead to the
    machine any more, search for the system, and accept it if its identity is proven."""
    target = target_of(node)
    try:
        reading = await (services.bmc.verify(target) if target.system_path is None else services.bmc.read(target))
        probing.check_machine(node, reading)
        return reading
    except BmcError as error:
        if target_of_address(node).system_path is not None or error.failure not in _MAY_BE_RENAMED:
            raise
        first = error
    try:
        return await probing.verified(node, services, must_prove=True)
    except BmcError as error:
        if error.failure is BmcFailure.AUTH:
            raise
        raise first from None


def _stored(node: Node, to: Node, now: datetime, config: Policy) -> Update[Node, Write]:
    """Store the reading, an unchanged one only every `confirmed_every`. After a change, run again at once."""
    before, after = node.bmc, to.bmc
    same = has_fresh_power(node, now, config) and (before.power, before.sync_failure) == (
        after.power,
        after.sync_failure,
    )
    confirms = same and after == replace(before, power_at=after.power_at) and not _is_to_be_stored(node, now, config)
    if confirms:
        to = replace(to, stored_power_at=_stored_at(node))
    as_wanted = after.desired_power in (None, after.power)
    requeue_after = next_read(to, config) - now if same and as_wanted else _AT_ONCE
    return Update(to=to, reason=f"power is {after.power}", requeue_after=requeue_after, quiet=same, confirms=confirms)


def _is_to_be_stored(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether an unchanged reading has to be stored now. Each node has one time in each `confirmed_every` to
    store such a reading; the times of the nodes are spread over the interval."""
    stored_at, every = _stored_at(node), config.confirmed_every.total_seconds()
    if stored_at is None:
        return True
    phase = node.id * _SILVER % 1 * every
    return (now.timestamp() - phase) // every > (stored_at.timestamp() - phase) // every


def _stored_at(node: Node) -> datetime | None:
    return node.stored_power_at or node.bmc.power_at


def _failed(node: Node, now: datetime, error: BmcError, config: Policy) -> Change:
    """Record a failed read. The stored power does not change, and the pause before the next read grows."""
    refused = error.failure is BmcFailure.AUTH and error.dialled
    failures = node.bmc.sync_failures + 1
    failed = replace(
        node.bmc,
        sync_failures=failures,
        sync_failure=error.failure,
        sync_error=error.detail,
        next_sync_at=now + _pause(node, error, failures),
        tried_version=error.credential_version or node.bmc.tried_version,
        tries=_counted_once(node.bmc, now).tries if refused else tries_before(node.bmc),
        trying=None,
    )
    to, reason = with_fields(node, bmc=failed), _unreadable(failed)
    if (failed.sync_failure, failed.sync_error) == (node.bmc.sync_failure, node.bmc.sync_error):
        # The failure is the same as before, so the stored reason keeps its time.
        return Update(to=to, reason=reason, requeue_after=next_read(to, config) - now, quiet=True)
    return transition(node, to, reason=reason, cause="step: read power")


def _pause(node: Node, error: BmcError, failures: int) -> timedelta:
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 1, _AT_MOST_DOUBLED)))
    if error.failure is BmcFailure.AUTH:
        pause = max(pause, SECOND_LOGIN_AFTER)
    if error.retry_after is not None:
        pause = max(pause, min(error.retry_after, LONGEST_PATIENCE))
    # A failed network switch makes many BMCs unreachable. Their retries are spread over time.
    return pause * (1 + 0.1 * (node.id * failures * _GOLDEN % 1))


def _counted_once(bmc: Bmc, now: datetime) -> Bmc:
    """Add a try for a login that may have been refused, unless the BMC has it or the login cap is reached."""
    may = bmc if has_try(bmc) else counted(bmc, now)
    return bmc if isinstance(may, Wait) else may


def _unreadable(bmc: Bmc) -> str:
    return f"power cannot be read ({bmc.sync_failure}): {bmc.sync_error}"


def _unseen(node: Node, now: datetime) -> Update[Node, Write]:
    """Count a power read whose result is unknown as a refused login."""
    bmc = replace(_counted_once(node.bmc, now), trying=None)
    return Update(
        to=with_fields(node, bmc=bmc),
        reason="the result of a power read is unknown, and counts as a failed login",
        requeue_after=_AT_ONCE,
        quiet=True,
    )
