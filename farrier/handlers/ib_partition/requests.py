"""Answers the intents of a partition, in order. Pure.

`update` changes the service settings. `delete` is refused while the partition has members, unless `drain` is set. The
next run answers the intents that follow an accepted deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farrier.errors import RefusedByModel
from farrier.handlers.resource import accept, params_of, reject
from farrier.model.ib_partition import (
    DELETING,
    MTUS,
    DeletePartition,
    IbPartition,
    Member,
    PartitionWrite,
    UpdatePartition,
)
from farrier.model.resource import Answer, Pending

# As many as an operator can read.
MOST_NAMED = 10


class Settled(msgspec.Struct, frozen=True):
    """The partition after its intents, the answers to these intents, and an accepted deletion if there is one."""

    partition: IbPartition
    answers: tuple[PartitionWrite, ...]
    deletion: Pending | None = None


def settle(partition: IbPartition) -> Settled:
    """Answer the intents in order, up to the intent that begins the deletion."""
    answers: list[PartitionWrite] = []
    to = partition
    for request in partition.requests:
        to, answer = _update(to, request) if request.action == "update" else _delete(to, request)
        answers.append(answer)
        if to.state != partition.state:
            return Settled(to, tuple(answers), request)
    return Settled(to, tuple(answers))


def _update(partition: IbPartition, request: Pending) -> tuple[IbPartition, Answer]:
    try:
        asked = params_of(request, UpdatePartition)
    except RefusedByModel as refused:
        return partition, reject(request, refused.text)
    if asked.mtu_limit is not None and asked.mtu_limit not in MTUS:
        return partition, reject(request, f"mtu_limit must be 2 or 4 (KiB); got {asked.mtu_limit}")
    changed = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None}
    return msgspec.structs.replace(partition, **changed), accept(request)


def _delete(partition: IbPartition, request: Pending) -> tuple[IbPartition, Answer]:
    try:
        asked = params_of(request, DeletePartition)
    except RefusedByModel as refused:
        return partition, reject(request, refused.text)
    if partition.state == DELETING:
        return partition, accept(request, "the partition is already being deleted")
    if partition.users and not asked.drain:
        return partition, reject(
            request,
            f"the partition has members: {named(partition.users)}; to begin the deletion now and wait until all "
            "members have left, submit delete with drain: true",
        )
    return msgspec.structs.replace(partition, state=DELETING, draining=asked.drain), accept(request)


def named(members: Sequence[Member]) -> str:
    """Name the first `MOST_NAMED` different owners of these members, and the number of further owners."""
    return listed(list(dict.fromkeys(member.owner for member in members)))


def listed(words: Sequence[str]) -> str:
    """List the first `MOST_NAMED` words, and the number of further words."""
    more = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
