"""What a partition's run does in UFM: claim its number, keep UFM as it is to be, or give the number up.

Each may be cut off anywhere and made again: it reads before it changes, and what it committed is only what it read
afterwards. A number is claimed, and that committed, before the first change: what is then found in UFM is ours.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
import structlog

from farrier.handlers.ib_partition.doing import Refused, make
from farrier.handlers.ib_partition.plan import SEEN_AGAIN_AFTER, Plan, marks, planned
from farrier.handlers.ib_partition.requests import named
from farrier.model.ib_partition import (
    DELETING,
    ERROR,
    GONE,
    PROVISIONING,
    READY,
    IbPartition,
    MemberState,
    PartitionWrite,
)
from farrier.model.outcome import DoNothing, Transition, Update, Wait
from farrier.model.ufm import Pkey, UfmError, UfmFailure, spelled
from farrier.protocols import Fabrics, UfmClient

_log = structlog.stdlib.get_logger(__name__)

# What UFM does later than it answers, and what a change did whose answer was lost, is read soon.
SOON = timedelta(seconds=5)
_AT_ONCE = timedelta(0)
_MOST_NAMED = 10


class PartitionServices(msgspec.Struct, frozen=True):
    """What a partition's steps may use."""

    fabrics: Fabrics


Outcome: TypeAlias = (
    Transition[IbPartition, PartitionWrite]
    | Update[IbPartition, PartitionWrite]
    | Wait[PartitionWrite]
    | DoNothing[PartitionWrite]
)


async def keep(partition: IbPartition, now: datetime, services: PartitionServices) -> Outcome:
    """Claim the number if it is not ours yet; else make UFM what it is to be."""
    client = _client(partition, services)
    if client is None:
        return _no_client(partition)
    try:
        if partition.claimed_at is None:
            return await _claim(partition, now, client)
        return await _reconcile(partition, now, client)
    except UfmError as error:
        return _cannot_ask(partition, error)


async def give_up(partition: IbPartition, services: PartitionServices) -> Outcome:
    """Have UFM forget the partition; it ends when UFM is seen without it."""
    client = _client(partition, services)
    if client is None:
        return _no_client(partition)
    try:
        if await client.read_anew(partition.pkey) is not None:
            await _delete(client, partition.pkey)
            if await client.read_anew(partition.pkey) is not None:
                return Wait(reason="UFM has not given it up yet", look_again=SOON)
    except UfmError as error:
        if error.is_refusal:
            return Wait(reason=f"UFM does not give it up: {error.detail}")
        return _cannot_ask(partition, error)
    to = msgspec.structs.replace(partition, state=GONE, last_error=None, strangers=())
    return Transition(to=to, reason="UFM does not have it any more; its number is free again", cause="deleted")


async def _delete(client: UfmClient, number: int) -> None:
    try:
        await client.delete(number)
    except UfmError as error:
        if error.failure is not UfmFailure.ABSENT:  # then somebody was faster
            raise


async def _claim(partition: IbPartition, now: datetime, client: UfmClient) -> Outcome:
    found = await client.read_anew(partition.pkey)
    if found is not None:
        return Wait(
            reason=f"UFM has {spelled(partition.pkey)} already, as {found.name or 'a partition'!r}, and farrier did "
            f"not make it: remove it there, or delete this one and create it with another pkey"
        )
    to = msgspec.structs.replace(partition, claimed_at=now)
    return Update(to=to, reason="its number is free in UFM", look_again=_AT_ONCE)


async def _reconcile(partition: IbPartition, now: datetime, client: UfmClient) -> Outcome:
    # Another replica may have changed it since this one has read: what members wait for is not decided on that.
    waited_for = any(member.state in (MemberState.PENDING, MemberState.LEAVING) for member in partition.members)
    have = await client.read(partition.pkey, fresh=waited_for)
    if have is None and not waited_for:
        have = await client.read(partition.pkey, fresh=True)
    plan = planned(partition, have, now, named=client.named)
    refused = Refused()
    removed = plan.removed
    if plan.changes:
        refused = await make(client, plan.changes)
        have = await client.read(partition.pkey)
        plan = planned(partition, have, now, named=client.named)
    taken = tuple(guid for guid in removed if have is None or guid not in have.ports)
    if taken:
        _log.warning("ib_partition.strangers_removed", partition=partition.name, guids=list(taken[:_MOST_NAMED]))
    return _settled(partition, have, plan, refused, taken)


def _settled(
    partition: IbPartition, have: Pkey | None, plan: Plan, refused: Refused, taken: tuple[str, ...]
) -> Outcome:
    """What a run that could ask UFM leaves."""
    writes = tuple(marks(partition, have, refused.ports))
    to = msgspec.structs.replace(
        partition, strangers=plan.strangers, fabric_name=have.name if have is not None else partition.fabric_name
    )
    if plan.changes and refused.text:
        return _refused(partition, to, refused.text, writes)
    if plan.changes:
        return _waits(to, partition, "UFM has not done yet all that it was asked for", SOON, writes)
    to = msgspec.structs.replace(to, last_error=None)
    if partition.state == DELETING:
        return _waits(to, partition, f"waits for members to leave: {named(partition.users)}", None, writes)
    if partition.state != READY:
        to = msgspec.structs.replace(to, state=READY)
        reason = "UFM has it" if partition.state == PROVISIONING else "UFM takes it again"
        return Transition(to=to, reason=reason, cause="reconciled", writes=writes)
    if taken:
        return Update(to=to, reason=f"removed from UFM ports that nobody asked for: {_some(taken)}", writes=writes)
    if plan.strangers:
        guids = tuple(one.guid for one in plan.strangers)
        reason = f"UFM has ports in it that nobody asked for, which are removed if they stay: {_some(guids)}"
        return _waits(to, partition, reason, SEEN_AGAIN_AFTER, writes)
    if to != partition:
        return Update(to=to, reason="UFM has it as it is to be", quiet=True, writes=writes)
    return DoNothing(writes=writes)


def _refused(partition: IbPartition, to: IbPartition, text: str, writes: tuple[PartitionWrite, ...]) -> Outcome:
    to = msgspec.structs.replace(to, last_error=text)
    reason = f"UFM refuses it: {text}"
    if partition.state in (PROVISIONING, READY):
        to = msgspec.structs.replace(to, state=ERROR)
        return Transition(to=to, reason=reason, cause="refused", writes=writes)
    return _waits(to, partition, reason, None, writes)


def _waits(
    to: IbPartition,
    partition: IbPartition,
    reason: str,
    look_again: timedelta | None,
    writes: tuple[PartitionWrite, ...],
) -> Outcome:
    """It stays, and what is known of it may be new."""
    if to != partition:
        return Update(to=to, reason=reason, look_again=look_again, writes=writes)
    return Wait(reason=reason, look_again=look_again, writes=writes)


def _client(partition: IbPartition, services: PartitionServices) -> UfmClient | None:
    return None if partition.site is None else services.fabrics.client(partition.site)


def _no_client(partition: IbPartition) -> Outcome:
    return Wait(reason=f"site {partition.site} has no [ufm] here")


def _cannot_ask(partition: IbPartition, error: UfmError) -> Outcome:
    if error.ambiguous:
        return Wait(reason=f"UFM did not say what became of {error.operation}: {error.detail}", look_again=SOON)
    reason = f"UFM of site {partition.site} cannot be asked: {error.failure}: {error.detail}"
    return Wait(reason=reason, look_again=error.retry_after)


def _some(guids: tuple[str, ...]) -> str:
    more = len(guids) - _MOST_NAMED
    return ", ".join(guids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
