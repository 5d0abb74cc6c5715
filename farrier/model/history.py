"""History as it is queried and shown: entries, filters, and the key by which a reader continues.

`protocols.Queries` returns these; the command line and the web show them. States are plain texts here. In JSON
durations are seconds and times ISO 8601.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from farrier.model import duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST = (1 << 63) - 1  # of a bigint


class Order(StrEnum):
    """How history is walked: by time, or resource by resource of one kind, each from its beginning. One resource's own
    history goes by its versions, which is the same as by time."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OF_A_KIND = "of a kind"


class HistoryKey(msgspec.Struct, frozen=True):
    """Where a reader of history stands: at the change with this key, which it has read. Good in every order."""

    at: datetime
    id: int
    version: int
    kind: str
    layer: str

    @property
    def text(self) -> str:
        """The key as a text, which clients return unchanged."""
        return f"{(self.at - _EPOCH) // _MICROSECOND}.{self.id}.{self.version}.{self.kind}.{self.layer}"


def parse_key(text: str) -> HistoryKey:
    """The key of `HistoryKey.text`. Raises ValueError."""
    micros, id_, version, kind, layer = [*text.split(".", 4), *[""] * 4][:5]
    numbers = (micros, id_, version)
    if not (all(n.isascii() and n.isdecimal() and int(n) <= _LARGEST for n in numbers) and kind and layer):
        raise ValueError(f"expected the key of a history entry, as printed by an earlier command, not {text!r}")
    try:
        at = _EPOCH + int(micros) * _MICROSECOND
    except OverflowError:
        raise ValueError(f"the time of key {text!r} is out of range") from None
    return HistoryKey(at, int(id_), int(version), kind, layer)


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one layer of one resource: what, when, after how long, who caused it, and why. `name` is the
    resource's, or the site of a MAAS region; `requested_by` is who asked, if a request was the cause and says so."""

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
        """Where a reader stands who has read it."""
        return HistoryKey(self.at, self.id, self.version, self.kind, self.layer)


Bound = datetime | timedelta
"""A time, or an age. An age counts back from the database's time."""


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes; what is empty or None takes any.

    A walk `of a kind` has that one in `kinds`. `resource` (kind, and name or id) is the one that is asked for; the name
    of a MAAS region is its site. `since` is included, `until` is not.
    A cause is meant by its whole text or by its first word: `intent 7`, `intent`, `timer`. `reason` is a piece of the
    text, upper or lower case; `at_least` is how long the state that was left had lasted.
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

    def is_narrow(self, order: Order) -> bool:
        """Whether a walk meets changes that are not wanted."""
        if self.resource is not None:
            return self != HistoryFilter(resource=self.resource)
        if order is Order.OF_A_KIND:
            return self != HistoryFilter(kinds=self.kinds)
        return self != HistoryFilter(since=self.since, until=self.until)


class HistoryPage(msgspec.Struct, frozen=True):
    """Some changes, and from where to go on; None at the end. A page in the midst of the history may hold few changes
    or none, if few are wanted: it looks at so many and no more."""

    changes: tuple[HistoryEntry, ...]
    following: HistoryKey | None


class Pruned(msgspec.Struct, frozen=True):
    """A step of removing old history: changes looked at, changes removed, and from where to go on (None: the end)."""

    looked: int
    deleted: int
    following: HistoryKey | None


class Retained(msgspec.Struct, frozen=True):
    """What a step of the pass over old history came to. The counts and `took` are those of the pass so far; `ended`:
    this step was its last. The next is due in `due_in`."""

    due_in: timedelta
    ended: bool
    looked: int
    deleted: int
    took: timedelta


def parse_resource(text: str) -> tuple[str, str]:
    """KIND/NAME, where an id is a name, too. Raises ValueError."""
    kind, _, name = text.partition("/")
    if not kind or not name:
        raise ValueError(f"expected KIND/NAME, such as node/gpu-1, got {text!r}")
    return kind, name


def parse_bound(text: str) -> Bound:
    """An age (`2h`) or a time; one without a zone is UTC. Raises ValueError that shows the right form."""
    try:
        return duration.parse(text)
    except ValueError:
        pass
    try:
        at = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise ValueError(f"expected an age (30m, 2h, 7d) or a time (2026-01-31T12:00:00Z), got {text!r}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
