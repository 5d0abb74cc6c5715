"""Compares a partition with UFM, and returns the changes to make, the states of the members, and the differences in
words, which change only if UFM changes. Pure.

The changes are independent, so a refused change blocks no other. Removals come before additions, unless no port would
remain after the removals. Ports that UFM refused earlier are added last. A port that is not a member is removed only if
a later reading still shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from farrier.handlers.ib_partition.requests import listed
from farrier.model.partition.partition import IbPartition, Left, Marked, Member, MemberState, Stranger
from farrier.model.partition.ufm import (
    Add,
    Create,
    Membership,
    PartitionChange,
    PartitionPort,
    Pkey,
    RemovePorts,
    SetPorts,
    SetQos,
    WantedPartition,
    spelled,
)

# Twice the time for which runs share a reading, so that the port is in two different readings.
SEEN_AGAIN_AFTER = timedelta(seconds=20)
# A removal has its GUIDs in the path of the URL: 100 GUIDs take 1.7 kB, and servers accept 8 kB.
MOST_AT_ONCE = 100
# Each stranger takes 80 bytes of the partition's row. Further strangers are recorded once these are removed.
MOST_STRANGERS = 500


class PartitionPlan(msgspec.Struct, frozen=True):
    """The changes to make. `strangers` are ports in UFM that are not members, also those that are being removed."""

    changes: tuple[PartitionChange, ...]
    strangers: tuple[Stranger, ...]
    removed: tuple[str, ...]  # the strangers to remove


def planned(partition: IbPartition, have: Pkey | None, now: datetime, *, named: bool) -> PartitionPlan:
    """Return the changes that bring UFM to the target state."""
    wanted = partition.wanted(named=named)
    ports = _ports(partition)
    if have is None:
        return PartitionPlan((Create(wanted), *_additions(wanted, partition.users)), (), ())
    strangers = _strangers(partition, have, now)
    removed = tuple(one.guid for one in strangers if now - one.seen_at >= SEEN_AGAIN_AFTER)
    leaving = {member.guid for member in partition.members if member.state is MemberState.LEAVING}
    gone = dict.fromkeys(guid for guid in have.ports if guid in leaving or guid in removed)
    changes: list[PartitionChange] = []
    if have.qos is not None and have.qos != wanted.qos:
        changes.append(SetQos(wanted))
    missing = [member for member in partition.users if member.guid not in have.ports]
    kept = {guid: ports.get(guid, port) for guid, port in have.ports.items() if guid not in gone}
    off = tuple(guid for guid, port in kept.items() if have.ports[guid] != port)
    # Setting an empty list of ports may delete the partition in UFM. An addition restores most of the settings, and the
    # next run restores the rest.
    if (off or _is_off(wanted, have)) and (kept or not missing):
        changes.append(SetPorts(wanted, kept, off))
    removals = [RemovePorts(wanted, tuple(chunk)) for chunk in _chunks(list(gone))]
    changes += removals if kept else ()
    changes += _additions(wanted, missing)
    changes += removals if not kept else ()
    return PartitionPlan(tuple(changes), strangers, removed)


def differences(partition: IbPartition, have: Pkey | None, plan: PartitionPlan, *, named: bool) -> str:
    """Describe the differences that the changes of `plan` will remove."""
    if have is None:
        return f"partition {spelled(partition.pkey)} is missing"
    leaving = [guid for change in plan.changes if isinstance(change, RemovePorts) for guid in change.guids]
    of_ports = _of_ports(_ports(partition), have.ports, leaving)
    return "; ".join([*_of_itself(partition.wanted(named=named), have), *of_ports])


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


def marks(partition: IbPartition, have: Pkey | None, refused: Mapping[str, str]) -> Iterator[Marked | Left]:
    """Yield the writes about members, from the current state of UFM and the reasons of `refused` members."""
    ports = {} if have is None else have.ports
    for member in partition.members:
        if member.state is MemberState.LEAVING:
            if member.guid not in ports:
                yield Left(guid=member.guid, seq=member.seq)
            continue
        state, reason = _state(member, ports, refused)
        if (state, reason) != (member.state, member.reason):
            yield Marked(guid=member.guid, seq=member.seq, state=state, reason=reason)


def _state(
    member: Member, ports: Mapping[str, PartitionPort], refused: Mapping[str, str]
) -> tuple[MemberState, str | None]:
    found = ports.get(member.guid)
    if found is not None and found.membership is member.membership:
        return MemberState.APPLIED, None
    if member.guid in refused:
        return MemberState.REFUSED, refused[member.guid]
    return MemberState.PENDING, None


def _ports(partition: IbPartition) -> dict[str, PartitionPort]:
    return {member.guid: PartitionPort(member.membership, partition.index0) for member in partition.users}


def _is_off(wanted: WantedPartition, have: Pkey) -> bool:
    return (bool(wanted.name) and have.name != wanted.name) or have.ip_over_ib != wanted.ip_over_ib


def _strangers(partition: IbPartition, have: Pkey, now: datetime) -> tuple[Stranger, ...]:
    known = {one.guid: one.seen_at for one in partition.strangers}
    ours = {member.guid for member in partition.members}
    return tuple(Stranger(guid, known.get(guid, now)) for guid in sorted(have.ports.keys() - ours)[:MOST_STRANGERS])


def _additions(wanted: WantedPartition, members: Sequence[Member]) -> Iterator[Add]:
    for refused in (False, True):
        for membership in Membership:
            guids = [
                member.guid
                for member in members
                if member.membership is membership and (member.state is MemberState.REFUSED) == refused
            ]
            yield from (Add(wanted, tuple(chunk), membership) for chunk in _chunks(guids))


def _chunks(guids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(guids), MOST_AT_ONCE):
        yield guids[start : start + MOST_AT_ONCE]
