"""Decides about the intents of a partition. Pure.

`update` changes the service settings. `delete` is refused while the partition has members, unless `drain` is set.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farrier.handlers.resource.requests import params_of
from farrier.model.kinds.resource import Pending
from farrier.model.partition.partition import DELETING, MTUS, DeletePartition, IbPartition, Member, UpdatePartition

# As many as an operator can read.
MOST_NAMED = 10


def after(partition: IbPartition, request: Pending) -> IbPartition:
    """Return the partition after an intent. Raises ValueError or RefusedByModel with the reason for a refusal."""
    if request.action == "update":
        return _updated(partition, params_of(request, UpdatePartition))
    asked = params_of(request, DeletePartition)
    if partition.users and not asked.drain:
        raise ValueError(
            f"the partition has members: {named(partition.users)}; with drain: true, the deletion begins now "
            "and waits until all members have left"
        )
    return partition.at(DELETING, draining=asked.drain)


def _updated(partition: IbPartition, asked: UpdatePartition) -> IbPartition:
    if asked.mtu_limit is not None and asked.mtu_limit not in MTUS:
        raise ValueError(f"mtu_limit must be 2 or 4 (KiB); got {asked.mtu_limit}")
    changed = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None}
    return partition.but(**changed)


def named(members: Sequence[Member]) -> str:
    """Name the first `MOST_NAMED` different owners of these members, and the number of further owners."""
    return listed(list(dict.fromkeys(member.owner for member in members)))


def listed(words: Sequence[str]) -> str:
    """List the first `MOST_NAMED` words, and the number of further words."""
    more = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
