"""A MAAS region that is observed: its states and edges, its snapshot, and what one look at it leaves.

A resource of its own, one for each site with a region, so exactly one replica reads it. Its handler decides what is due
and its writes become `node_observations`; nothing else writes those. An error of the region never becomes a word on a
machine: only the region's own answer about that one machine makes it absent.
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
    OBSERVING = "observing"  # the last look succeeded
    FAILING = "failing"  # it did not; what is known grows old, and is not acted on once it is
    UNCONFIGURED = "unconfigured"  # no controller's settings name its site, so nobody reads it
    GONE = "gone"


SPEC = KindSpec(
    name=KIND,
    what="a MAAS region",
    relation="farrier.maas_regions",
    states={
        RegionState.STARTING: KindState(limit=timedelta(minutes=5)),
        RegionState.OBSERVING: KindState(why_none="the target state of a region"),
        # As long as an observation may be acted on.
        RegionState.FAILING: KindState(limit=timedelta(minutes=5)),
        RegionState.UNCONFIGURED: KindState(
            why_none="an operator removed it from the settings; it has an alert of its own"
        ),
        RegionState.GONE: KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge(RegionState.STARTING, RegionState.OBSERVING, "the first read succeeded"),
        KindEdge(RegionState.STARTING, RegionState.FAILING, "the region cannot be read"),
        KindEdge(RegionState.OBSERVING, RegionState.FAILING, "the region cannot be read"),
        KindEdge(RegionState.FAILING, RegionState.OBSERVING, "a read succeeded again"),
        *(
            KindEdge(
                state, RegionState.UNCONFIGURED, "its site has been in the settings of no controller for ten minutes"
            )
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
            description="delete a region whose site was removed from the settings of every controller; refused "
            "while nodes have machines there"
        )
    },
)


class Gap(msgspec.Struct, frozen=True):
    """Ids from `first` to `last` that were passed over when later ones were read, at `at`: they are another level's, or
    are not committed yet."""

    first: int
    last: int
    at: datetime


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the events were read. `newest` is the highest id that was; None before the first."""

    newest: int | None = None
    gaps: tuple[Gap, ...] = ()


class DueMachine(msgspec.Struct, frozen=True):
    """A machine to read, and its node. `urgent`: a workflow waits for it, or it has waited long. `present`: it was
    there at the last reading, and no workflow removes it.
    """

    node: int
    system_id: str
    urgent: bool = False
    present: bool = False


class MaasRegion(Resource, frozen=True, kw_only=True):
    """A region as one run sees it, named as its site. `COLUMNS` are a run's to change. `complete_at` is until when
    every event is known; `unreadable` are machines that the region cannot tell of, and when each is asked for again;
    readings from before `since` do not count; `configured_at` is when a controller last had the site in its settings.
    `due` are machines to be read, most urgent first, and `more` that there are others; `turn_at` is there when some are
    due only because it is their turn: turns are taken until then. `present` machines were there when they were last
    read, and `lost` were not any more within the last hour. `known` are some that were there, `held` some that
    `username` holds. `users` are some nodes that have a machine in a region that is unconfigured."""

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
"""The columns that a run may change, in addition to the state and the last error."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a machine: the fields of `MaasObservation` that come from the region."""

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
    """What the region says of a node's machine. `read_at` is from before the look began. A node that has another
    machine by now is left alone; one whose handler may care is woken."""

    node: int
    system_id: str
    state: MaasStatus
    read_at: datetime
    seen: Seen = Seen()


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Events that name a machine, so that its last reading is outdated. Events that are not about its status count only
    while a workflow is live. A machine without a node is ignored.
    """

    system_id: str
    at: datetime
    status_changed: bool


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Events may have been missed: what is known of any machine of the region is old."""

    at: datetime


RegionWrite: TypeAlias = Reading | Named | Unknown | Answer
