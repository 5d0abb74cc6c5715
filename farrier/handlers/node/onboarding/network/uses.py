"""Allocates the segment addresses and IB memberships that a node's site requires, before the node is deployed.

This module is pure: the run returns the allocation as a write. The partition's handler then changes UFM and enqueues
the node. If a segment is missing, the commit does not fail; the next run waits for the segment and names it. A machine
keeps the networks with which it was deployed until the machine is released.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from farrier.config.sites import Site
from farrier.handlers.node.changes import Failed, StageStep, Waiting, listed, with_note
from farrier.model.loop.outcome import EndsBy, most_urgent
from farrier.model.network.segment import SegmentState
from farrier.model.network.uses import NodeNetworks, PartitionUse, SegmentUse
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import UseNetworks
from farrier.model.partition import partition
from farrier.model.partition.partition import MemberState

_AT_ONCE = timedelta(0)
# Pause between two allocations. Meanwhile, a network may become available, or another transaction may unlock it.
_TAKE_AGAIN = timedelta(seconds=1)
_JOINABLE = (partition.PROVISIONING, partition.READY, partition.ERROR)
_DELETING = "deleting"


class MissingNetwork(msgspec.Struct, frozen=True):
    """A network that the node does not have yet. If `own` is set, the cause concerns only this node, so the stage fails
    after its deadline. Any other cause delays all nodes of the site; each node continues by itself when the cause is
    gone. `ends_by` is what supplies the network."""

    what: str
    own: bool = False
    ends_by: EndsBy = EndsBy.PERSON


def held_up(node: Node, site: Site, now: datetime) -> Waiting | StageStep | Failed | None:
    """Return the result of the stage while the node lacks networks; None when the node has all networks."""
    if node.live.memo.has_deployed:
        return None
    known = node.networks or NodeNetworks()
    wanted = _wanted(node, site)
    if _named(known) != wanted:
        return Waiting(reason=_described(wanted), requeue_after=_AT_ONCE, writes=(wanted,))
    misfits = (*_elsewhere(node, known.segments, "segment"), *_elsewhere(node, known.partitions, "IB partition"))
    if misfits:
        return Failed(failure=FailureClass.INVALID_CONFIG, detail="; ".join(misfits))
    if any(_segment_changes(each) for each in known.segments) or any(_ports_change(node, p) for p in known.partitions):
        return _takes(node, wanted, now)
    lacks = [*_lacking_segments(known), *_lacking_partitions(node, known)]
    if not lacks:
        return None
    return Waiting(
        reason="; ".join(lack.what for lack in lacks),
        ends_by=most_urgent(lack.ends_by for lack in lacks),
        timed=any(lack.own for lack in lacks),
    )


def _takes(node: Node, wanted: UseNetworks, now: datetime) -> Waiting | StageStep:
    """Repeat the allocation, but only `_TAKE_AGAIN` after the last one, so that runs do not loop tightly."""
    reason = "farrier allocates the networks that are available"
    took_at = node.live.memo.took_at
    if took_at is not None and now - took_at < _TAKE_AGAIN:
        return Waiting(reason=reason, requeue_after=took_at + _TAKE_AGAIN - now)
    return StageStep(to=with_note(node, took_at=now), reason=reason, writes=(wanted,))


def in_use(node: Node) -> str:
    """Describe the node's networks in words; empty if the node has no networks."""
    known = node.networks or NodeNetworks()
    addresses = [f"{each.address} of {each.name}" for each in known.segments if each.address is not None]
    joined = [f"a member of {each.name}" for each in known.partitions]
    return listed([*addresses, *joined]) if addresses or joined else ""


def _wanted(node: Node, site: Site) -> UseNetworks:
    """Return the networks that the site requires. If the node is known to have no IB ports, it joins no partition."""
    partitions = () if node.ib_guids == () else site.infiniband.partitions
    return UseNetworks(segments=tuple(sorted(site.network.segments)), partitions=tuple(sorted(partitions)))


def _named(known: NodeNetworks) -> UseNetworks:
    return UseNetworks(
        segments=tuple(sorted(each.name for each in known.segments)),
        partitions=tuple(sorted(each.name for each in known.partitions)),
    )


def _described(wanted: UseNetworks) -> str:
    names = (*wanted.segments, *wanted.partitions)
    return (
        f"farrier allocates the networks of the node: {listed(names)}"
        if names
        else "farrier releases all networks of the node"
    )


def _elsewhere(node: Node, used: tuple[SegmentUse, ...] | tuple[PartitionUse, ...], what: str) -> Iterator[str]:
    for each in used:
        if each.state is not None and each.site != node.site:
            yield (
                f"{what} {each.name} belongs to site {each.site or '(none)'}, but the node belongs to site {node.site}"
            )


def _segment_changes(use: SegmentUse) -> bool:
    """Return whether repeating the write would allocate or release an address of the node."""
    if use.address is not None:
        return _is_going(use.state)
    return use.state == SegmentState.READY and use.free


def _ports_change(node: Node, use: PartitionUse) -> bool:
    """Return whether repeating the write would add a port of the node to the partition or remove one."""
    guids = node.ib_guids or ()
    ours = {port.guid for port in use.ports if port.ours and port.state is not MemberState.LEAVING}
    if use.state not in _JOINABLE:
        return bool(ours)
    taken = {port.guid for port in use.ports if port.state is not MemberState.LEAVING and port.owner != node.name}
    return bool(ours - set(guids)) or bool(set(guids) - ours - taken)


def _unusable(what: str, state: str | None, setting: str) -> MissingNetwork:
    """Return the `MissingNetwork` for a network that does not exist or is being deleted."""
    if state is None:
        return MissingNetwork(f"{what} does not exist; create it, or remove it from {setting} of the site")
    return MissingNetwork(f"{what} is being deleted; remove it from {setting} of the site, or create it again")


def _lacking_segments(known: NodeNetworks) -> Iterator[MissingNetwork]:
    for use in known.segments:
        if use.address is not None:
            continue
        if use.state is None or _is_going(use.state):
            yield _unusable(f"segment {use.name}", use.state, "network.segments")
        elif use.state == SegmentState.READY:
            yield MissingNetwork(f"segment {use.name} has no free address; an operator has to add prefixes")
        else:
            yield MissingNetwork(f"segment {use.name} is {use.state}", ends_by=EndsBy.ITSELF)


def _lacking_partitions(node: Node, known: NodeNetworks) -> Iterator[MissingNetwork]:
    if known.partitions and node.ib_guids is None:
        yield MissingNetwork(
            f"the IB ports of the node are not known; set them with SELECT farrier.set_ib_ports('{node.name}', …), "
            "with an empty array for none",
            own=True,
        )
    for use in known.partitions:
        if use.state is None or _is_going(use.state):
            yield _unusable(f"IB partition {use.name}", use.state, "infiniband.partitions")
        else:
            yield from _lacking_ports(node, use)


def _lacking_ports(node: Node, use: PartitionUse) -> Iterator[MissingNetwork]:
    theirs = [port for port in use.ports if not port.ours]
    if theirs:
        ports = listed(f"{port.guid} for {port.owner}" for port in theirs)
        yield MissingNetwork(f"ports of the node are already members of IB partition {use.name}: {ports}", own=True)
    refused = [port for port in use.ports if port.ours and port.state is MemberState.REFUSED]
    if refused:
        ports = listed(f"{port.guid}: {port.reason or 'no reason'}" for port in refused)
        yield MissingNetwork(f"UFM refuses ports in IB partition {use.name}: {ports}", own=True)
    pending = [port.guid for port in use.ports if port.ours and port.state is MemberState.PENDING]
    if pending:
        why = f" ({use.state}: {use.last_error})" if use.last_error else ""
        yield MissingNetwork(
            f"waits until UFM has {listed(pending)} in IB partition {use.name}{why}", ends_by=EndsBy.ITSELF
        )


def _is_going(state: str | None) -> bool:
    return state is not None and state.startswith(_DELETING)
