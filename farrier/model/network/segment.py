"""A network segment: its states and edges, its actions, and its snapshot.

A segment is a network at a site; it has prefixes, a VLAN and a VNI. Clients and nodes allocate addresses from a segment
(`farrier.allocate_address`). The database ensures that prefixes do not overlap and that VLANs and VNIs are unique; the
handler decides when a segment may end. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from farrier.model.intents.params import Params
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindAction, KindEdge, KindSpec, KindState

KIND = "network_segment"


class SegmentState(StrEnum):
    PROVISIONING = "provisioning"
    READY = "ready"  # the only state in which addresses are allocated
    DRAINING = "deleting/drain_allocated_ips"
    DB_DELETE = "deleting/db_delete"
    GONE = "gone"


MOST_PREFIXES = 16
"""Largest number of prefixes of a segment. Several prefixes allow a second address family and growth. An allocation
searches each of them."""
MOST_RESERVED = 65_536
"""Largest number of reserved addresses at one end of a prefix: a whole /16."""

# The lengths are those of the longest texts of an IPv6 network and an IPv6 address. The handler checks everything else.
Prefix: TypeAlias = Annotated[str, Meta(min_length=1, max_length=49)]
Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=45)]
Prefixes: TypeAlias = Annotated[tuple[Prefix, ...], Meta(max_length=MOST_PREFIXES)]
Gateways: TypeAlias = Annotated[
    tuple[Address, ...],
    Meta(max_length=MOST_PREFIXES, description="At most one in each prefix; they are never allocated."),
]
SiteName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"\A\S+\Z")]
Vlan: TypeAlias = Annotated[int, Meta(ge=1, le=4094)]  # 0 and 4095 are reserved by the standard
Vni: TypeAlias = Annotated[int, Meta(ge=1, le=16_777_215)]  # 24 bits
Mtu: TypeAlias = Annotated[int, Meta(ge=576, le=9216)]  # the minimum of IPv4; the largest jumbo frames
Reserved: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_RESERVED)]
_FIXED = Meta(description="Cannot change.")


class CreateSegment(Params, frozen=True, kw_only=True):
    """Parameters of `create`."""

    site: Annotated[SiteName, Meta(description="Site of the segment.")]
    prefixes: Annotated[
        Prefixes, Meta(description="IPv4 and IPv6 networks, none of which overlaps another of the site.")
    ]
    gateways: Gateways | None = None
    reserved_first: (
        Annotated[Reserved, Meta(description="Addresses at the beginning of each prefix that are never allocated.")]
        | None
    ) = None
    reserved_last: (
        Annotated[Reserved, Meta(description="Addresses at the end of each prefix that are never allocated.")] | None
    ) = None
    vlan: Annotated[Vlan, Meta(description="Default: a number of the pool vlan:SITE, if there is one.")] | None = None
    vni: Annotated[Vni, Meta(description="Default: a number of the pool vni, if there is one.")] | None = None
    mtu: Annotated[Mtu, Meta(description="Largest packet, in bytes.")] | None = None


class UpdateSegment(Params, frozen=True, kw_only=True):
    """Parameters of `update`. `site`, `prefixes`, `vlan` and `vni` exist only so that the answer can name an
    alternative."""

    any_of: ClassVar[tuple[str, ...]] = ("mtu", "add_prefixes", "site", "prefixes", "vlan", "vni")

    mtu: Annotated[Mtu, Meta(description="Largest packet, in bytes.")] | None = None
    add_prefixes: Annotated[Prefixes, Meta(description="Further networks of the segment.")] | None = None
    gateways: Gateways | None = None
    site: Annotated[SiteName, _FIXED] | None = None
    prefixes: Annotated[Prefixes, _FIXED] | None = None
    vlan: Annotated[Vlan, _FIXED] | None = None
    vni: Annotated[Vni, _FIXED] | None = None


class DeleteSegment(Params, frozen=True, kw_only=True):
    """Parameters of `delete`."""

    drain: Annotated[
        bool,
        Meta(description="Wait until all addresses are released. Otherwise, allocated addresses refuse the deletion."),
    ] = False


_S = SegmentState
_MOMENT = timedelta(minutes=15)

SPEC = KindSpec(
    name=KIND,
    what="a network segment",
    relation="farrier.network_segments",
    states={
        _S.PROVISIONING: KindState(limit=_MOMENT),
        _S.READY: KindState(why_none="the target state of a segment"),
        _S.DRAINING: KindState(why_none="the state lasts until the last address is released"),
        _S.DB_DELETE: KindState(limit=_MOMENT),
        _S.GONE: KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge(_S.PROVISIONING, _S.READY, "its first run has allocated its prefixes, VLAN and VNI", "farrier"),
        KindEdge(_S.READY, _S.DRAINING, "a `delete` is accepted", "client"),
        KindEdge(_S.DRAINING, _S.DB_DELETE, "no address was allocated during the last `drain_period`", "farrier"),
        KindEdge(_S.DB_DELETE, _S.GONE, "its prefixes, VLAN and VNI are free again", "farrier"),
    ),
    initial=_S.PROVISIONING,
    terminal=frozenset({_S.GONE}),
    create=CreateSegment,
    actions={
        "update": KindAction(
            description="change the MTU, or add prefixes with their gateways",
            params=UpdateSegment,
            accepted_in=(_S.PROVISIONING, _S.READY),
        ),
        "delete": KindAction(
            description="delete the segment; rejected while addresses are allocated, unless drain is true: then "
            "farrier waits until all addresses are released",
            params=DeleteSegment,
        ),
    },
)


class NetworkSegment(Resource, frozen=True, kw_only=True):
    """The snapshot of a segment. A run may change `mtu`, `prefixes`, `gateways` and the fields that begin with `drain`
    or `delete`. `drain_until` is when a drain may end. `delete_asked_at` is the time of the deletion's request, and
    `delete_request` is its intent.

    `allocated` counts the allocated addresses, and `users` are owners of some of them; `last_released_at` is when an
    address was last released, or None if no address was ever released. `clashes` has, for each pending intent that adds
    prefixes, a text about each overlap with a prefix of another segment.
    """

    state: SegmentState
    prefixes: tuple[str, ...]
    gateways: tuple[str, ...] = ()
    reserved_first: int = 0
    reserved_last: int = 0
    mtu: int
    drain_until: datetime | None = None
    delete_asked_at: datetime | None = None
    delete_request: int | None = None

    allocated: int = 0
    users: tuple[str, ...] = ()
    last_released_at: datetime | None = None
    clashes: Mapping[str, tuple[str, ...]] = {}


class Closing(msgspec.Struct, frozen=True):
    """Stops the allocation of addresses. `unused` is set if the snapshot of the run had no allocated address. If a
    client has allocated an address since, or is about to do so, the commit writes nothing for this run."""

    unused: bool


class Growing(msgspec.Struct, frozen=True):
    """Adds prefixes at a site. If another transaction is adding prefixes at the site, the commit writes nothing for
    this run."""

    site: str


SegmentWrite: TypeAlias = Answer | Closing | Growing
