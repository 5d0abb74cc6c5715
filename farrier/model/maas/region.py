"""An observed MAAS region: its states and edges, its snapshot, and the writes of one observation.

Each site with a region has one resource of this kind, so exactly one controller reads the region. The handler decides
what to read, and only its writes change `node_observations`. A failed request never changes the observation of a
machine: a machine becomes absent only because of a response about this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

import msgspec

from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindAction, KindEdge, KindSpec, KindState
from farrier.model.maas.reading import MaasFailure, MaasStatus, Recorded
from farrier.model.node.evidence import Part

KIND = "maas_region"


class RegionState(StrEnum):
    STARTING = "starting"  # not read yet
    OBSERVING = "observing"  # the last observation succeeded
    FAILING = "failing"  # the last observation failed; known readings become stale and are then ignored
    UNCONFIGURED = "unconfigured"  # no controller has its site in the settings, so no controller reads it
    GONE = "gone"


_S = RegionState

SPEC = KindSpec(
    name=KIND,
    what="a MAAS region",
    relation="farrier.maas_regions",
    states={
        _S.STARTING: KindState(limit=timedelta(minutes=5)),
        _S.OBSERVING: KindState(why_none="the target state of a region"),
        # Equal to the default time for which an observation stays fresh.
        _S.FAILING: KindState(limit=timedelta(minutes=5)),
        _S.UNCONFIGURED: KindState(
            why_none="an operator removed its site from the settings; a separate alert reports this state"
        ),
        _S.GONE: KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge(_S.STARTING, _S.OBSERVING, "the first read succeeded"),
        KindEdge(_S.STARTING, _S.FAILING, "the region cannot be read"),
        KindEdge(_S.OBSERVING, _S.FAILING, "the region cannot be read"),
        KindEdge(_S.FAILING, _S.OBSERVING, "a read succeeded again"),
        *(
            KindEdge(state, _S.UNCONFIGURED, "for ten minutes, no controller has had the site in its settings")
            for state in (_S.STARTING, _S.OBSERVING, _S.FAILING)
        ),
        KindEdge(_S.UNCONFIGURED, _S.OBSERVING, "the site is in the settings again, and a read succeeded"),
        KindEdge(_S.UNCONFIGURED, _S.FAILING, "the site is in the settings again, but the region cannot be read"),
        KindEdge(_S.UNCONFIGURED, _S.GONE, "intent `delete`", "operator"),
    ),
    initial=_S.STARTING,
    terminal=frozenset({_S.GONE}),
    steady=_S.OBSERVING,
    create=None,
    actions={
        "delete": KindAction(
            description="delete a region whose site is no longer in the settings of any controller; rejected while "
            "nodes have machines in the region",
            accepted_in=(_S.UNCONFIGURED,),
            instead="remove its site from the settings of every controller, and reload the controllers; the region "
            "becomes unconfigured ten minutes later",
        )
    },
)


class Gap(msgspec.Struct, frozen=True):
    """Event IDs from `first` to `last` that were missing at `at`, when later events were read. The missing events have
    a level that farrier does not read, or were not committed yet."""

    first: int
    last: int
    at: datetime


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of reading events. `newest` is the highest ID that was read so far, or None before the first
    event."""

    newest: int | None = None
    gaps: tuple[Gap, ...] = ()


class DueMachine(msgspec.Struct, frozen=True):
    """A machine to read, and its node. `urgent` is set if a workflow waits for the reading, or if the machine has
    waited long. `present` is set if the last reading found the machine and no workflow removes the machine."""

    node: int
    system_id: str
    urgent: bool = False
    present: bool = False


class MaasRegion(Resource, frozen=True, kw_only=True):
    """The snapshot of a region, named after its site. A run may change only the state, the last error, and the fields
    from `username` to `configured_at`.

    farrier has read all events up to `complete_at`. `unreadable` lists machines that the region cannot report, with the
    time of the next attempt for each. Readings from before `since` are ignored. `configured_at` is when a controller
    last had the site in its settings.

    `due` lists machines to read, most urgent first; `more` is set if further machines are due. `turn_at` is the next
    value of `swept_at`. A run stores this value after it has read the machines in `due` that need only their periodic
    reading. If no machine needs its periodic reading, `turn_at` is None. `present` counts machines that the last
    reading found, and `lost` counts machines that vanished within the last hour. `known` are some of the present
    machines, and `held` some of the machines that `username` owns. If the region is no longer configured, `users` names
    some nodes that still have machines in it.
    """

    site: str
    url: str
    state: RegionState
    username: str | None = None
    identified_at: datetime | None = None
    cursor: Cursor = Cursor()
    complete_at: datetime | None = None
    swept_at: datetime | None = None
    failure: MaasFailure | None = None
    failures: int = 0
    next_try_at: datetime | None = None
    unreadable: Mapping[str, datetime] = {}
    since: datetime | None = None
    configured_at: datetime

    due: tuple[DueMachine, ...] = ()
    more: bool = False
    turn_at: datetime | None = None
    present: int = 0
    lost: int = 0
    known: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of a node's machine. `read_at` is a time just before farrier read the machine. If the node has another
    machine at the commit, the reading is ignored. If the node's handler may need the change, the node is enqueued.
    `in_rescue` is set if rescue mode gave the machine to its owner; the database keeps this mark until the owner
    changes. `disks` are the disks that MAAS knows, or None if it reports none."""

    node: int
    system_id: str
    state: MaasStatus
    read_at: datetime
    detail: Recorded = Recorded()
    in_rescue: bool = False
    disks: tuple[Part, ...] | None = None


class NamedMachines(msgspec.Struct, frozen=True, kw_only=True):
    """Events that name a machine. Therefore the machine's last reading is outdated. If an event does not change the
    machine's status, it counts only while a workflow is live. Machines without a node are ignored."""

    system_id: str
    at: datetime
    status_changed: bool


class MissedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Records that events may have been missed, so all readings of machines of the region are outdated."""

    at: datetime


RegionWrite: TypeAlias = Reading | NamedMachines | MissedEvents | Answer
