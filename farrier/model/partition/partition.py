"""An InfiniBand partition: its states and edges, its actions, its snapshot, and the writes of a run.

A partition has a number (its pkey, taken from a pool), service settings and member ports. farrier creates it in the UFM
of its site. No other client of this UFM may use the partition's number.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from farrier.model.intents.params import Params
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindAction, KindEdge, KindSpec, KindState
from farrier.model.partition.ufm import HIGHEST_PKEY, LOWEST_PKEY, Membership, Qos, RateLimit, WantedPartition

KIND = "ib_partition"

PROVISIONING = "provisioning"  # UFM does not have it yet
READY = "ready"  # UFM has it with the requested settings
ERROR = "error"  # UFM refuses a part of the settings, or confirms a change without making it
DELETING = "deleting"  # its members have not all left, or UFM has not removed it yet
GONE = "gone"

Mtu: TypeAlias = Annotated[int, Meta(ge=2, le=4, description="MTU in KiB: 2 or 4.")]
ServiceLevel: TypeAlias = Annotated[int, Meta(ge=0, le=15, description="Service level of InfiniBand.")]
Rate: TypeAlias = Annotated[RateLimit, Meta(description="Rate in Gb/s.")]
MTUS = (2, 4)


class CreatePartition(Params, frozen=True, kw_only=True):
    """Parameters of `create`. The defaults are those of UFM."""

    site: Annotated[str, Meta(min_length=1, max_length=63, description="Site whose UFM has the partition.")] | None = (
        None
    )
    pkey: (
        Annotated[
            int,
            Meta(ge=LOWEST_PKEY, le=HIGHEST_PKEY, description="Default: the lowest free number of the site's pool."),
        ]
        | None
    ) = None
    mtu_limit: Mtu = 2
    rate_limit: Rate = RateLimit.G2_5
    service_level: ServiceLevel = 0
    ip_over_ib: Annotated[bool, Meta(description="Carry IP. Default: yes.")] = True
    index0: Annotated[bool, Meta(description="Make the key the first in the tables of its ports. Default: no.")] = False


class UpdatePartition(Params, frozen=True, kw_only=True):
    """Parameters of `update`. Omitted parameters do not change."""

    any_of: ClassVar[tuple[str, ...]] = ("mtu_limit", "rate_limit", "service_level")

    mtu_limit: Mtu | None = None
    rate_limit: Rate | None = None
    service_level: ServiceLevel | None = None


class DeletePartition(Params, frozen=True, kw_only=True):
    """Parameters of `delete`."""

    drain: Annotated[
        bool, Meta(description="Wait until all members have left. Otherwise, members refuse the deletion.")
    ] = False


SPEC = KindSpec(
    name=KIND,
    what="an IB partition",
    relation="farrier.ib_partitions",
    states={
        PROVISIONING: KindState(limit=timedelta(minutes=15)),
        READY: KindState(why_none="the target state of a partition"),
        ERROR: KindState(limit=timedelta(hours=1)),
        DELETING: KindState(limit=timedelta(minutes=15)),
        GONE: KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge(PROVISIONING, READY, "created in UFM"),
        KindEdge(
            PROVISIONING, ERROR, "UFM rejects the partition, or confirms the request but does not create the partition"
        ),
        KindEdge(PROVISIONING, DELETING, "intent `delete`", "operator"),
        KindEdge(READY, ERROR, "UFM rejects a change, or confirms the request but does not make the change"),
        KindEdge(READY, DELETING, "intent `delete`", "operator"),
        KindEdge(ERROR, READY, "UFM accepts the change, on a retry or after intent `update`"),
        KindEdge(ERROR, DELETING, "intent `delete`", "operator"),
        KindEdge(DELETING, GONE, "it has no members, and UFM has removed it"),
    ),
    initial=PROVISIONING,
    terminal=frozenset({GONE}),
    create=CreatePartition,
    actions={
        "update": KindAction(
            description="change the service parameters",
            params=UpdatePartition,
            accepted_in=(PROVISIONING, READY, ERROR),
        ),
        "delete": KindAction(
            description="delete the partition; rejected while it has members, unless drain is true: then farrier "
            "waits until all members have left",
            params=DeletePartition,
        ),
    },
)


class MemberState(StrEnum):
    PENDING = "pending"  # to be added in UFM
    APPLIED = "applied"  # UFM has it
    REFUSED = "refused"  # UFM refuses it; farrier retries
    LEAVING = "leaving"  # to be removed in UFM; then its row is deleted


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the partition. `owner` is the name that the client gave for the port's owner. `seq` counts the requests
    about the port."""

    guid: str
    owner: str
    membership: Membership = Membership.FULL
    state: MemberState = MemberState.PENDING
    seq: int
    reason: str | None = None


class Stranger(msgspec.Struct, frozen=True):
    """A port that UFM lists in the partition, but that is not a member in farrier. `seen_at` is when farrier first saw
    the port there."""

    guid: str
    seen_at: datetime


class IbPartition(Resource, frozen=True, kw_only=True):
    """The snapshot of a partition.

    `claimed_at` is when farrier claimed the number; at that time, the UFM `claimed_in` did not use the number.
    `asked_at` is when UFM accepted a change that it has not made yet. `absent_at` is when UFM was first seen without
    the deleted partition. `draining` is set if the partition was deleted while it had members. `fabric_name` is the
    partition's name in UFM. `strangers` are ports in UFM that are not members.
    """

    pkey: int
    mtu_limit: int
    rate_limit: RateLimit
    service_level: int
    ip_over_ib: bool = True
    index0: bool = False
    claimed_at: datetime | None = None
    claimed_in: str = ""
    asked_at: datetime | None = None
    absent_at: datetime | None = None
    draining: bool = False
    fabric_name: str = ""
    strangers: tuple[Stranger, ...] = ()
    members: tuple[Member, ...] = ()

    def wanted(self, *, named: bool) -> WantedPartition:
        """Return the target state in UFM. If `named` is set, farrier also sets the name in UFM."""
        qos = Qos(mtu_limit=self.mtu_limit, rate_limit=float(self.rate_limit), service_level=self.service_level)
        name = self.name if named else ""
        return WantedPartition(number=self.pkey, qos=qos, ip_over_ib=self.ip_over_ib, index0=self.index0, name=name)

    @property
    def users(self) -> tuple[Member, ...]:
        """The members that have not left."""
        return tuple(member for member in self.members if member.state is not MemberState.LEAVING)


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """Records the result for a member in UFM. If a client has changed the member meanwhile, nothing is written."""

    guid: str
    seq: int
    state: MemberState
    reason: str | None = None


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes the row of a leaving member that UFM no longer has. If a client has changed the member meanwhile, the row
    stays."""

    guid: str
    seq: int


PartitionWrite: TypeAlias = Answer | Marked | Left
