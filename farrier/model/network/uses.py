"""The network segments and IB partitions that a node uses, and the progress of each. The node's snapshot contains them.

The database computes this data (`farrier.networks_of`); a run requests networks with the write `UseNetworks`. Pure.
"""

from __future__ import annotations

import msgspec

from farrier.model.partition.partition import MemberState


class SegmentUse(msgspec.Struct, frozen=True, kw_only=True):
    """A segment from which the node gets an address. `state` is None if the segment does not exist. `free` is set if
    the segment has a free address, which can be allocated while the segment is ready. `address` is the node's address;
    `prefix_length` and `gateway` belong to this address."""

    name: str
    state: str | None = None
    site: str | None = None
    mtu: int | None = None
    vlan: int | None = None
    free: bool = False
    address: str | None = None
    prefix_length: int | None = None
    gateway: str | None = None


class PortUse(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the node that is a member of a partition. `ours` is set if the member's `owner` is the node itself."""

    guid: str
    owner: str
    ours: bool
    state: MemberState
    reason: str | None = None


class PartitionUse(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that the node's ports join. `state` is None if the partition does not exist."""

    name: str
    state: str | None = None
    site: str | None = None
    last_error: str | None = None
    ports: tuple[PortUse, ...] = ()


class NodeNetworks(msgspec.Struct, frozen=True, kw_only=True):
    """All segments and partitions that the node uses."""

    segments: tuple[SegmentUse, ...] = ()
    partitions: tuple[PartitionUse, ...] = ()
