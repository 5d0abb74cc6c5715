"""Compares a partition that is held after the restore of a backup with UFM. Changes nothing in UFM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from farrier.handlers.ib_partition.differences import differences
from farrier.handlers.ib_partition.plan import planned
from farrier.handlers.ib_partition.requests import listed
from farrier.model.loop.outcome import DoNothing, Wait
from farrier.model.loop.restores import held
from farrier.model.partition.partition import DELETING, IbPartition, PartitionWrite
from farrier.model.partition.ufm import Pkey, UfmError, spelled
from farrier.protocols import Fabrics


async def compare(
    partition: IbPartition, now: datetime, fabrics: Fabrics
) -> Wait[PartitionWrite] | DoNothing[PartitionWrite]:
    """Return what differs between UFM and the partition in the backup."""
    client = None if partition.site is None else fabrics.client(partition.site)
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
