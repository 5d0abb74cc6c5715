"""An observed MAAS region: its states and edges, its snapshot, and the writes of one observation.

Each site with a region has one such resource, so exactly one controller reads the region. The handler decides what to
read, and only its writes change `node_observations`. A failed request never changes the observation of a machine: only
the region's response about this machine can make it absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

import msgspec

from farrier.model.kinds import KindAction, KindEdge, KindSpec, KindState
from farrier.model.maas import MaasFailure, MaasStatus
from farrier.model.resource import Answer, Resource

KIND = "maas_region"


class RegionState(StrEnum):
    STARTING = "starting"  # not read yet
    OBSERVING = "observing"  # the last observation succeeded
    FAILING = "failing"  # the last observation failed; known readings become stale and are then ignored
    UNCONFIGURED = "unconfigured"  # no controller has its site in the settings, so no controller reads it
    GONE = "gone"


SPEC = KindSpec(
    name=KIND,
    what="a MAAS region",
    relation="farrier.maas_regions",
    states={
        RegionState.STARTING: KindState(limit=timedelta(minutes=5)),
        RegionState.OBSERVING: KindState(why_none="the target state of a region"),
        # Equal to the default time for which an observation stays fresh.
        RegionState.FAILING: KindState(limit=timedelta(minutes=5)),
        RegionState.UNCONFIGURED: KindState(
            why_none="an operator removed its site from the settings; a separate alert reports this state"
        ),
        RegionState.GONE: KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge(RegionState.STARTING, RegionState.OBSERVING, "the first read succeeded"),
        KindEdge(RegionState.STARTING, RegionState.FAILING, "the region cannot be read"),
        KindEdge(RegionState.OBSERVING, RegionState.FAILING, "the region cannot be read"),
        KindEdge(RegionState.FAILING, RegionState.OBSERVING, "a read succeeded again"),
        *(
            KindEdge(state, RegionState.UNCONFIGURED, "for ten minutes, no controller has had its site in the settings")
            for state in (RegionState.STARTING, RegionState.OBSERVING, RegionState.FAILING)
        ),
        KindEdge(
            RegionState.UNCONFIGURED, RegionState.OBSERVING, "its site is in the settings again, and a read succeeded"
        ),
        KindEdge(
            RegionState.UNCONFIGURED, RegionState.FAILING, "its site is in the settings again, but cannot be read"
        ),
        KindEdge(RegionState.UNCONFIGURED, RegionState.GONE, "intent `delete`", "operator"),
    ),
    initial=RegionState.STARTING,
    terminal=frozenset({RegionState.GONE}),
    steady=RegionState.OBSERVING,
    create=None,
    actions={
        "delete": KindAction(
            description="delete a region whose site is no longer in the settings of any controller; rejected while "
            "nodes have machines in the region",
            accepted_in=(RegionState.UNCONFIGURED,),
            instead="remove its site from the settings of every controller, and reload the controllers; the region "
            "becomes unconfigured ten minutes later",
        )
    },
)


class Gap(msgspec.Struct, frozen=True):
    """IDs from `first` to `last` that were missing at `at`, when later events were read. Their events have a level that
    farrier does not read, or were not committed yet."""

    first: int
    last: int
    at: datetime


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of reading events. `newest` is the highest ID read so far, None before the first event."""

    newest: int | None = None
    gaps: tuple[Gap, ...] = ()


class DueMachine(msgspec.Struct, frozen=True):
    """A machine to read, and its node. `urgent`: a workflow waits for the reading, or the machine has waited long.
    `present`: the last reading found the machine, and no workflow removes it."""

    node: int
    system_id: str
    urgent: bool = False
    present: bool = False


class MaasRegion(Resource, frozen=True, kw_only=True):
    """The snapshot of a region, named after its site. A run may change only `COLUMNS`, the state and the last error.

    `complete_at`: all events until then are known. `unreadable` are machines that the region cannot report, with the
    times of the next attempts. Readings from before `since` do not count. `configured_at` is when a controller last had
    the site in its settings.

    `due` are machines to read, most urgent first; `more`: further machines are due. `turn_at` is the next value of
    `swept_at`. A run stores this value after it has read the machines in `due` that need only their periodic reading;
    None if no machine needs it. `present` counts machines that the last reading found, and `lost` those that vanished
    within the last hour. `known` are some of the present machines, and `held` some of the machines that `username`
    owns. `users` are some nodes with machines in an unconfigured region.
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


COLUMNS = (
    "username",
    "identified_at",
    "cursor",
    "complete_at",
    "swept_at",
    "failure",
    "failures",
    "next_try_at",
    "unreadable",
    "since",
    "configured_at",
)
"""The columns that a run may change, besides the state and the last error."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored fields of a machine: those of `MaasObservation` that come from the region."""

    status: int | None = None
    status_name: str | None = None
    hostname: str | None = None
    owner: str | None = None
    locked: bool = False
    power_state: str | None = None
    netboot: bool | None = None
    status_message: str | None = None
    error_description: str | None = None
    osystem: str | None = None
    distro_series: str | None = None
    commissioning_status_name: str | None = None
    testing_status_name: str | None = None
    enable_hw_sync: bool | None = None
    sync_interval: float | None = None
    last_sync: datetime | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of a node's machine. `read_at` is the time before the observation began. The reading is ignored if the
    node has another machine by now. The node is enqueued if its handler may need the change. `in_rescue`: rescue mode
    gave the machine to its owner, which the database remembers until the owner changes."""

    node: int
    system_id: str
    state: MaasStatus
    read_at: datetime
    seen: Seen = Seen()
    in_rescue: bool = False


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Events that name a machine. The machine's last reading is therefore outdated. Events without a change of status
    count only while a workflow is live. A machine without a node is ignored."""

    system_id: str
    at: datetime
    status_changed: bool


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Events may have been missed, so all readings of machines of the region are outdated."""

    at: datetime


RegionWrite: TypeAlias = Reading | Named | Unknown | Answer
