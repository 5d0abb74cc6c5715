"""The data of history queries and views: entries, filters, and the keys of pages.

`protocols.Queries` returns this data; the command line and the web show it. States are plain texts here. In JSON,
durations are seconds and times are ISO 8601.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from farrier.model import duration
from farrier.model.intents.selection import LARGEST_ID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Order(StrEnum):
    """The order in which a query returns changes: the newest or the oldest first. The history of one resource is
    ordered by version; this gives the same order as the time. Before a certain time, no further change can become
    visible. In the order `oldest`, a query omits all changes after this time, so that a reader that continues later
    misses no change."""

    NEWEST = "newest"
    OLDEST = "oldest"


class HistoryKey(msgspec.Struct, frozen=True):
    """The position of a history reader: the last change that the reader has read. The same key can be used in both
    orders."""

    at: datetime
    id: int
    version: int
    kind: str
    layer: str

    @property
    def text(self) -> str:
        """The key as a text. Clients pass this text back unchanged."""
        return f"{(self.at - _EPOCH) // _MICROSECOND}.{self.id}.{self.version}.{self.kind}.{self.layer}"


def parse_key(text: str) -> HistoryKey:
    """Parse a text that `HistoryKey.text` returned. Raises ValueError."""
    micros, id_, version, kind, layer = [*text.split(".", 4), *[""] * 4][:5]
    numbers = (micros, id_, version)
    if not (all(n.isascii() and n.isdecimal() and int(n) <= LARGEST_ID for n in numbers) and kind and layer):
        raise ValueError(f"expected the key of a history entry, as printed by an earlier command, not {text!r}")
    try:
        at = _EPOCH + int(micros) * _MICROSECOND
    except OverflowError:
        raise ValueError(f"the time of key {text!r} is out of range") from None
    return HistoryKey(at, int(id_), int(version), kind, layer)


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change in one layer of a resource. `name` is the name of the resource, or the site of a MAAS region.
    `requested_by` is the client that asked for the change, or None if nobody did."""

    kind: str
    id: int
    version: int
    layer: str
    name: str
    source_state: str | None = msgspec.field(name="from")
    target_state: str = msgspec.field(name="to")
    at: datetime
    seconds_in_source: float | None
    cause: str
    requested_by: str | None
    reason: str
    source: str
    controller: str

    @property
    def key(self) -> HistoryKey:
        """The position of a reader that has just read this change."""
        return HistoryKey(self.at, self.id, self.version, self.kind, self.layer)


Bound = datetime | timedelta
"""A time, or an age. An age counts back from the database's time."""


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of changes; an empty field or None accepts all.

    `resource` is the kind and the name or ID of one resource; the name of a MAAS region is its site. `since` is
    inclusive, `until` exclusive.

    `causes` matches the whole text of a cause or its first word: `intent 7`, `intent`, `timer`. `reason` matches any
    part of the reason's text, case-insensitive. `at_least` is the shortest accepted time in the source state.
    """

    resource: tuple[str, str] | None = None
    since: Bound | None = None
    until: Bound | None = None
    kinds: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    requested_by: tuple[str, ...] = ()
    reason: str = ""
    at_least: timedelta | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether a query with this filter has to skip some of the changes that it reads."""
        if self.resource is not None:
            return self != HistoryFilter(resource=self.resource)
        return self != HistoryFilter(since=self.since, until=self.until)


class HistoryPage(msgspec.Struct, frozen=True):
    """Some changes, and the key of the next page, or None at the end. The query of a page reads a limited number of
    rows, so a page may contain few or no changes if the filter accepts few."""

    changes: tuple[HistoryEntry, ...]
    following: HistoryKey | None

    @property
    def reached(self) -> HistoryKey | None:
        """The key from which a reader of this page continues; None for an empty last page."""
        return self.following or (self.changes[-1].key if self.changes else None)


class Pruned(msgspec.Struct, frozen=True):
    """The result of one step of the removal of old history: the numbers of examined and removed changes, and the key of
    the next step, or None at the end."""

    looked: int
    deleted: int
    following: HistoryKey | None


class Retained(msgspec.Struct, frozen=True):
    """The result of a step of the shared pass over old history. The counts and `took` cover all steps of the pass so
    far. If `ended` is set, this step was the last step of the pass. The next step is due after `due_in`."""

    due_in: timedelta
    ended: bool
    looked: int
    deleted: int
    took: timedelta


def parse_resource(text: str) -> tuple[str, str]:
    """Parse KIND/NAME, where NAME may be an ID. Raises ValueError."""
    kind, _, name = text.partition("/")
    if not kind or not name:
        raise ValueError(f"expected KIND/NAME, such as node/gpu-1, got {text!r}")
    return kind, name


def parse_bound(text: str) -> Bound:
    """Parse an age (`2h`) or a time. A time without a zone is in UTC. Raises ValueError with a text that shows the
    expected form."""
    try:
        return duration.parse(text)
    except ValueError:
        pass
    try:
        at = msgspec.convert(text, datetime)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):  # a zone may move the time out of the calendar
        raise ValueError(
            f"expected an age (30m, 2h, 7d) of at most {duration.human(duration.LONGEST)}, or a time "
            f"(2026-01-31T12:00:00Z), got {text!r}"
        ) from None
