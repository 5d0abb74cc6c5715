"""The last reading of a node's machine in MAAS, as the region's observer stored it.

Part of a node's snapshot, read and never written by its handler. Outdated readings prove nothing: rules use only
`fresh` and `confirmed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from farrier.model.maas import MaasFailure, MaasStatus

DOUBTFUL = frozenset({MaasFailure.ABSENT, MaasFailure.AUTH})
"""Failures after which another region may be at the URL: known machines are missing, or the key is refused."""


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """How the region of a node's site stands. `username`: whose key it takes ours for, None until it was read."""

    failure: MaasFailure | None = None
    username: str | None = None
    last_error: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why it may not be the one that has our machines, so that no workflow asks anything of it; None if it is."""
        if self.failure in DOUBTFUL or self.username is None:
            return self.last_error or "not read yet"
        return None


class Outage(msgspec.Struct, frozen=True):
    """A time in which the node's region could not be read; it lasts while `ended_at` is None."""

    began_at: datetime
    ended_at: datetime | None = None


def unread(outages: Iterable[Outage], since: datetime, now: datetime) -> timedelta:
    """How much of the time since then the region could not be read. Outages do not overlap."""
    parts = ((max(out.began_at, since), min(out.ended_at or now, now)) for out in outages)
    return sum((end - begin for begin, end in parts if end > begin), timedelta(0))


CONFIRMED_AFTER = timedelta(seconds=60)
"""If two readings at least this far apart agree, the state is not transient (model §6)."""


class MaasObservation(msgspec.Struct, frozen=True, kw_only=True):
    """`read_at` is from before the reading began, so whatever happened earlier is in it. `fresh_at` is until when it is
    known to hold: the reading, or a later complete pass over the region's events that had none for this machine.
    `since` is the first reading that showed this state. `ours`: held by the user of our own key."""

    system_id: str
    state: MaasStatus
    since: datetime
    read_at: datetime
    fresh_at: datetime
    status: int | None = None  # None: absent
    status_name: str | None = None
    hostname: str | None = None
    owner: str | None = None
    ours: bool | None = False
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

    def fresh(self, now: datetime, ttl: timedelta) -> bool:
        """Whether it may be acted on."""
        return now - self.fresh_at <= ttl

    @property
    def confirmed(self) -> bool:
        """Whether the state was seen twice, far enough apart."""
        return self.read_at - self.since >= CONFIRMED_AFTER

    def tells_of(self, moment: datetime) -> bool:
        """Whether it was read after `moment`, so that what we did until then is in it."""
        return self.read_at >= moment
