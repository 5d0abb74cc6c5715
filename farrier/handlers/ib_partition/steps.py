"""The steps of a partition: claim its number, keep UFM in the target state, give the number up, or only compare.

A step may be interrupted at any point and repeated, because it reads before each change, and commits only the results
of reads after the change. The claim of a number is committed before the first change. So if UFM later has a partition
with this number, the partition belongs to farrier. When a site gets another UFM, nothing in that UFM belongs to farrier
until the number is claimed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
import structlog

from farrier.handlers.ib_partition.apply import RefusedPorts, make
from farrier.handlers.ib_partition.plan import SEEN_AGAIN_AFTER, PartitionPlan, differences, marks, planned
from farrier.handlers.ib_partition.requests import MOST_NAMED, listed, named
from farrier.model.loop.outcome import DoNothing, Transition, Update, Wait
from farrier.model.loop.restores import held
from farrier.model.partition.partition import (
    DELETING,
    ERROR,
    GONE,
    PROVISIONING,
    READY,
    IbPartition,
    MemberState,
    PartitionWrite,
)
from farrier.model.partition.ufm import DeleteKey, Pkey, UfmError, UfmFailure, spelled
from farrier.model.plural import counted
from farrier.protocols import Fabrics, UfmClient

_log = structlog.stdlib.get_logger(__name__)

# UFM may make a change after its response, and a response may be lost, so the partition is read again soon.
SOON = timedelta(seconds=5)
# UFM makes most accepted changes before the next reading. A change that takes longer than this counts as failed.
DONE_WITHIN = timedelta(minutes=2)
_AT_ONCE = timedelta(0)


Outcome: TypeAlias = (
    Transition[IbPartition, PartitionWrite]
    | Update[IbPartition, PartitionWrite]
    | Wait[PartitionWrite]
    | DoNothing[PartitionWrite]
)


async def keep(partition: IbPartition, now: datetime, fabrics: Fabrics) -> Outcome:
    """Claim the number if it is not claimed yet; otherwise make the changes that UFM needs."""
    client = _client(partition, fabrics)
    if client is None:
        return _no_client(partition)
    try:
        if partition.claimed_at is None:
            return await _claim(partition, now, client)
        if partition.claimed_in != client.url:
            return await _claim_elsewhere(partition, now, client)
        return await _reconcile(partition, now, client)
    except UfmError as error:
        return _cannot_ask(partition, error)


async def give_up(partition: IbPartition, now: datetime, fabrics: Fabrics) -> Outcome:
    """Delete the partition in UFM, and enter `gone` when UFM no longer has it. If the first read does not show the
    partition, a later read must confirm this, because UFM may still be making an earlier change."""
    client = _client(partition, fabrics)
    if client is None:
        return _no_client(partition)
    try:
        if partition.claimed_in != client.url:
            return await _claim_elsewhere(partition, now, client)
        found = await client.read_anew(partition.pkey)
        if found is not None:
            await _delete(client, partition)
            if await client.read_anew(partition.pkey) is not None:
                there = partition.but(absent_at=None)
                return _waits(there, partition, "UFM has not removed the partition yet", SOON)
    except UfmError as error:
        if error.is_refusal:
            return Wait(reason=f"UFM does not remove the partition: {error.detail}")
        return _cannot_ask(partition, error)
    since = partition.absent_at or now
    if found is None and now - since < SEEN_AGAIN_AFTER:
        absent = partition.but(absent_at=since)
        left = since + SEEN_AGAIN_AFTER - now
        return _waits(
            absent,
            partition,
            "UFM no longer has the partition; the deletion ends when another read confirms this",
            left,
        )
    to = partition.at(GONE, last_error=None, strangers=())
    return Transition(to=to, reason="UFM has removed the partition; its pkey is free again", cause="deleted")


async def compare(partition: IbPartition, now: datetime, fabrics: Fabrics) -> Outcome:
    """Return what differs between UFM and a partition that is held after the restore of a backup; change nothing."""
    client = _client(partition, fabrics)
    if client is None:
        return Wait(reason=held(f"site {partition.site} has no [ufm] in this controller's settings"))
    try:
        have = await client.read(partition.pkey)
    except UfmError as error:
        return Wait(reason=held(f"the UFM cannot be read: {error.failure}: {error.detail}"), error=error.label)
    said = "; ".join(_differences(partition, have, now, url=client.url, named=client.named))
    return Wait(reason=held(said)) if said else DoNothing()


def _differences(partition: IbPartition, have: Pkey | None, now: datetime, *, url: str, named: bool) -> Iterator[str]:
    if partition.claimed_in not in (None, url):
        yield f"the partition was created in the UFM at {partition.claimed_in}, but its site now has the UFM at {url}"
    if partition.state == DELETING and not partition.users:
        if have is not None:
            yield f"the partition was being deleted in the backup, and UFM has {spelled(partition.pkey)}"
        return
    if have is None:
        yield f"UFM does not have {spelled(partition.pkey)}"
        return
    said = differences(partition, have, planned(partition, have, now, named=named), named=named)
    if said:
        yield said
    strangers = sorted(have.ports.keys() - {member.guid for member in partition.users})
    if strangers:
        yield f"UFM has ports that are not members in the backup: {listed(tuple(strangers))}"


async def _delete(client: UfmClient, partition: IbPartition) -> None:
    try:
        await client.do(DeleteKey(partition.wanted(named=client.named)))
    except UfmError as error:
        if error.failure is not UfmFailure.ABSENT:  # another client has deleted it
            raise


async def _claim(partition: IbPartition, now: datetime, client: UfmClient) -> Outcome:
    found = await client.read_anew(partition.pkey)
    if found is not None:
        return Wait(
            reason=f"UFM already has {spelled(partition.pkey)} as {found.name or 'a partition'!r}, which farrier did "
            "not create: remove it in UFM, or delete this partition and create it again with another pkey"
        )
    to = partition.but(claimed_at=now, claimed_in=client.url)
    return Update(to=to, reason="the partition's pkey is free in UFM", requeue_after=_AT_ONCE)


async def _claim_elsewhere(partition: IbPartition, now: datetime, client: UfmClient) -> Outcome:
    """Claim the number in the UFM that the site has now, unless it may belong to another client there."""
    found = await client.read_anew(partition.pkey)
    ours = {member.guid for member in partition.members}
    known = found is not None and found.name == partition.fabric_name and found.ports.keys() <= ours
    place = (
        f"the partition was created in the UFM at {partition.claimed_in}, but its site now has the UFM at {client.url}"
    )
    if found is not None and not known:
        ports = counted(len(found.ports), "port")
        has = f"has {spelled(partition.pkey)} as {found.name or 'a partition'!r}, with {ports}"
        return Wait(
            reason=f"{place}. This UFM {has}: this may be another partition, so farrier does not change it",
            error=UfmError.label,
        )
    if found is None and partition.state == DELETING and not partition.users:
        return Wait(
            reason=f"{place}. This UFM does not have the pkey: delete the pkey in the earlier UFM", error=UfmError.label
        )
    _log.warning("ib_partition.another_ufm", partition=partition.name, before=partition.claimed_in, now=client.url)
    to = partition.but(claimed_at=now, claimed_in=client.url, strangers=(), absent_at=None)
    return Update(to=to, reason=f"from now on the partition is in the UFM at {client.url}", requeue_after=_AT_ONCE)


async def _reconcile(partition: IbPartition, now: datetime, client: UfmClient) -> Outcome:
    # Another controller may have changed UFM after the shared reading, so decisions about waiting members, and all
    # changes, require a fresh reading.
    waited_for = any(member.state in (MemberState.PENDING, MemberState.LEAVING) for member in partition.members)
    have = await client.read(partition.pkey, fresh=waited_for)
    plan = planned(partition, have, now, named=client.named)
    if plan.changes and not waited_for:
        have = await client.read(partition.pkey, fresh=True)
        plan = planned(partition, have, now, named=client.named)
    refused = RefusedPorts()
    removed = plan.removed
    if plan.changes:
        refused = await make(client, plan.changes)
        have = await client.read(partition.pkey)
        plan = planned(partition, have, now, named=client.named)
    taken = tuple(guid for guid in removed if have is None or guid not in have.ports)
    if taken:
        _log.warning("ib_partition.strangers_removed", partition=partition.name, guids=list(taken[:MOST_NAMED]))
    off = differences(partition, have, plan, named=client.named) if plan.changes else ""
    return _settled(partition, now, SeenPartition(have, plan, off, refused, taken))


class SeenPartition(msgspec.Struct, frozen=True):
    """A run's last reading, the remaining differences, UFM's refusals, and the removed ports of non-members."""

    have: Pkey | None
    plan: PartitionPlan
    off: str
    refused: RefusedPorts
    taken: tuple[str, ...]


def _settled(partition: IbPartition, now: datetime, seen: SeenPartition) -> Outcome:
    """Return the outcome of a run that could read UFM."""
    plan, taken = seen.plan, seen.taken
    writes = tuple(marks(partition, seen.have, seen.refused.ports))
    fabric_name = seen.have.name if seen.have is not None else partition.fabric_name
    to = partition.but(strangers=plan.strangers, fabric_name=fabric_name, asked_at=None)
    if plan.changes and seen.refused.text:
        return _refused(partition, to, seen.refused.text, f"UFM refuses the partition: {seen.refused.text}", writes)
    if plan.changes:
        return _not_done(partition, to, now, seen.off, writes)
    to = to.but(last_error=None)
    if partition.state == DELETING:
        return _waits(to, partition, f"waits for members to leave: {named(partition.users)}", None, writes)
    if partition.state != READY:
        to = to.at(READY)
        reason = "created in UFM" if partition.state == PROVISIONING else "UFM accepts the change"
        return Transition(to=to, reason=reason, cause="reconciled", writes=writes)
    if taken:
        return Update(
            to=to,
            reason=f"removed these ports from UFM, because they are not members: {listed(taken)}",
            writes=writes,
        )
    if plan.strangers:
        guids = tuple(one.guid for one in plan.strangers)
        reason = (
            "UFM has ports that are not members; farrier removes them if a later read still shows them: "
            f"{listed(guids)}"
        )
        return _waits(to, partition, reason, SEEN_AGAIN_AFTER, writes)
    if to != partition:
        return Update(to=to, reason="UFM matches the partition", quiet=True, writes=writes)
    return DoNothing(writes=writes)


def _not_done(
    partition: IbPartition, to: IbPartition, now: datetime, off: str, writes: tuple[PartitionWrite, ...]
) -> Outcome:
    """Handle a change that UFM accepted but does not show: read after growing pauses, and finally enter `error`."""
    since = partition.asked_at or now
    to = to.but(asked_at=since)
    reason = f"UFM has not made all accepted changes yet: {off}"
    if now - since >= DONE_WITHIN:
        return _refused(partition, to, reason, reason, writes)
    return _waits(to, partition, reason, max(SOON, now - since), writes)


def _refused(
    partition: IbPartition, to: IbPartition, text: str, reason: str, writes: tuple[PartitionWrite, ...]
) -> Outcome:
    to = to.but(last_error=text)
    if partition.state in (PROVISIONING, READY):
        to = to.at(ERROR)
        return Transition(to=to, reason=reason, cause="refused", writes=writes)
    return _waits(to, partition, reason, None, writes)


def _waits(
    to: IbPartition,
    partition: IbPartition,
    reason: str,
    requeue_after: timedelta | None,
    writes: tuple[PartitionWrite, ...] = (),
) -> Outcome:
    """Keep the state, and store new facts about the partition."""
    if to != partition:
        return Update(to=to, reason=reason, requeue_after=requeue_after, writes=writes)
    return Wait(reason=reason, requeue_after=requeue_after, writes=writes)


def _client(partition: IbPartition, fabrics: Fabrics) -> UfmClient | None:
    return None if partition.site is None else fabrics.client(partition.site)


def _no_client(partition: IbPartition) -> Outcome:
    return Wait(reason=f"site {partition.site} has no [ufm] in this controller's settings", error=UfmError.label)


def _cannot_ask(partition: IbPartition, error: UfmError) -> Outcome:
    """Wait in the current state. With `error`, the partition counts as failing even in `ready`."""
    if error.ambiguous:
        reason = f"the result of {error.operation} in the UFM of site {partition.site} is unknown: {error.detail}"
        return Wait(reason=reason, requeue_after=SOON, error=error.label)
    reason = f"the UFM of site {partition.site} cannot be reached: {error.failure}: {error.detail}"
    return Wait(reason=reason, requeue_after=error.retry_after, error=error.label)
