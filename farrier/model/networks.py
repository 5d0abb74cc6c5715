"""What a node is to use of network segments and IB partitions, and how far it has it: what its snapshot says of it.

Made by the database (`farrier.networks_of`); a run asks for it with the write `UseNetworks`. A pure leaf.
"""

from __future__ import annotations

import msgspec

from farrier.model.ib_partition import MemberState


class SegmentUse(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that the node is to have an address of. `state` is None while there is no such segment; `free`: an
    address could be had of it, were it ready. `address` is the node's own, with what goes with it."""

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
    """A port of the node that is a member. `ours`: for the node itself, not for another `owner`."""

    guid: str
    owner: str
    ours: bool
    state: MemberState
    reason: str | None = None


class PartitionUse(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that the node's ports are to be members of. `state` is None while there is no such partition."""

    name: str
    state: str | None = None
    site: str | None = None
    pkey: int | None = None
    last_error: str | None = None
    ports: tuple[PortUse, ...] = ()


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    """All that the node is to use."""

    segments: tuple[SegmentUse, ...] = ()
    partitions: tuple[PartitionUse, ...] = ()
