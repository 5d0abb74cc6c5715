"""Describes the differences between UFM and a partition, in texts that change only if UFM changes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from farrier.handlers.ib_partition.plan import PartitionPlan
from farrier.handlers.ib_partition.requests import listed
from farrier.model.partition.partition import IbPartition
from farrier.model.partition.ufm import PartitionPort, Pkey, RemovePorts, WantedPartition, spelled


def differences(partition: IbPartition, have: Pkey | None, plan: PartitionPlan, *, named: bool) -> str:
    """Describe the differences that the changes of `plan` will remove."""
    if have is None:
        return f"partition {spelled(partition.pkey)} is missing"
    ports = {member.guid: PartitionPort(member.membership, partition.index0) for member in partition.users}
    leaving = [guid for change in plan.changes if isinstance(change, RemovePorts) for guid in change.guids]
    return "; ".join([*_of_itself(partition.wanted(named=named), have), *_of_ports(ports, have.ports, leaving)])


def _of_itself(wanted: WantedPartition, have: Pkey) -> Iterator[str]:
    if wanted.name and have.name != wanted.name:
        yield f"its name is {have.name!r}, not {wanted.name!r}"
    if have.ip_over_ib != wanted.ip_over_ib:
        yield f"ip_over_ib is {have.ip_over_ib}, not {wanted.ip_over_ib}"
    if have.qos is not None:
        found, asked = msgspec.structs.asdict(have.qos), msgspec.structs.asdict(wanted.qos)
        yield from (f"{name} is {found[name]:g}, not {asked[name]:g}" for name in asked if found[name] != asked[name])


def _of_ports(
    wanted: Mapping[str, PartitionPort], have: Mapping[str, PartitionPort], leaving: list[str]
) -> Iterator[str]:
    missing = [guid for guid in wanted if guid not in have]
    if missing:
        yield f"missing members: {listed(missing)}"
    otherwise = [guid for guid, port in wanted.items() if guid in have and have[guid] != port]
    if otherwise:
        yield f"members whose properties differ from the configured properties: {listed(otherwise)}"
    if leaving:
        yield f"members to be removed: {listed(leaving)}"
