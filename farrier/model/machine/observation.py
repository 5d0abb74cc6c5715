"""The last reading of a node's machine in MAAS, as the region's handler stored it.

The reading is part of the node's snapshot; the node's handler never writes the reading. Stale readings prove nothing,
so rules use only readings that are `fresh` or `confirmed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from farrier.model.maas.reading import MaasFailure, MaasStatus, SeenMachine

DOUBTFUL = frozenset({MaasFailure.ABSENT, MaasFailure.AUTH})
"""Failures after which another region may be at the URL: known machines are missing, or the key is refused."""


class Region(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The state of the MAAS region of a node's site. `username` is the user of farrier's API key, or None until the
    region was read."""

    failure: MaasFailure | None = None
    username: str | None = None
    last_error: str | None = None

    @property
    def doubt(self) -> str | None:
        """The reason why another region may be at the URL, or None if there is no doubt. While there is a doubt, no
        workflow may send requests to the region."""
        if self.failure in DOUBTFUL or self.username is None:
            return self.last_error or "not read yet"
        return None


class Outage(msgspec.Struct, frozen=True):
    """A period in which the region of the node, the database, all controllers, or all doors were unavailable.
    `ended_at` is None while the outage lasts."""

    began_at: datetime
    ended_at: datetime | None = None


def without(outages: Iterable[Outage], since: datetime, now: datetime) -> timedelta:
    """Return the length of the time from `since` to `now` without the outages, which may overlap."""
    left, covered = now - since, since
    for outage in sorted(outages, key=lambda outage: outage.began_at):
        begin, end = max(outage.began_at, covered), min(outage.ended_at or now, now)
        if end > begin:
            left -= end - begin
            covered = end
    return left


CONFIRMED_AFTER = timedelta(seconds=60)
"""If two readings at least this far apart show a state, the state is not transient."""


class MaasObservation(SeenMachine, frozen=True, gc=False, kw_only=True, omit_defaults=False):
    """The last reading of a machine. `read_at` is a time before the reading began, so the reading includes all earlier
    changes. The state is known to have lasted at least until `fresh_at`. This is the time of the reading, or of a later
    complete read of the region's events that shows no event of this machine. `since` is the time of the first reading
    with this state. `ours` is set if farrier's user owns the machine. `owner_by_rescue` is set if `owner` became the
    owner because of rescue mode."""

    system_id: str
    state: MaasStatus
    since: datetime
    read_at: datetime
    fresh_at: datetime
    ours: bool | None = False
    owner_by_rescue: bool = False

    def fresh(self, now: datetime, ttl: timedelta) -> bool:
        """Return whether the reading is fresh enough for rules."""
        return now - self.fresh_at <= ttl

    @property
    def confirmed(self) -> bool:
        """Whether two readings, far enough apart, showed the same state."""
        return self.read_at - self.since >= CONFIRMED_AFTER

    def tells_of(self, moment: datetime) -> bool:
        """Return whether the machine was read after `moment`, so that the reading includes farrier's changes up to
        `moment`."""
        return self.read_at >= moment
