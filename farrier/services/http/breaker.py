"""A circuit breaker, which refuses requests while a known failure would also affect them.

Each MAAS region, UFM and Vault has its own breaker. Its users choose which failures open it, and raise the errors.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from farrier import protocols
from farrier.model.request_error import RequestError

E = TypeVar("E", bound=RequestError[Any])


class KnownFailure(msgspec.Struct, Generic[E], frozen=True):
    """The failure that the next request would meet. `left` is the remaining part of `pause`, after which a request is
    tried."""

    error: E
    left: timedelta
    pause: timedelta


class _Opened(msgspec.Struct, Generic[E], frozen=True):
    """An open breaker. `noted_at` and `until` are seconds of the clock, `pause` is in seconds."""

    error: E
    noted_at: float
    pause: float
    until: float


class Breaker(Generic[E]):
    """A breaker, closed at first. A failure opens the breaker for `pause`. With `longest`, each further failure doubles
    the pause up to `longest`. With `one_tries`, only one request is sent after a pause; all others are refused until
    that request succeeds, or for one more pause. Without `one_tries`, all requests are sent after a pause."""

    def __init__(
        self,
        clock: protocols.Clock,
        *,
        pause: timedelta,
        longest: timedelta | None = None,
        one_tries: bool = False,
    ) -> None:
        self._now = clock.monotonic
        self._first = pause.total_seconds()
        self._longest = longest.total_seconds() if longest else None
        self._one_tries = one_tries
        self._opened: _Opened[E] | None = None

    @property
    def last(self) -> E | None:
        """The last failure, even after its pause; None after a success."""
        return None if self._opened is None else self._opened.error

    def trouble(self) -> KnownFailure[E] | None:
        """Return the failure that causes requests to be refused now. None if a request may be sent."""
        opened, now = self._opened, self._now()
        if opened is None:
            return None
        if now >= opened.until:
            if self._one_tries:
                self._opened = msgspec.structs.replace(opened, until=now + opened.pause)
            return None
        return KnownFailure(opened.error, timedelta(seconds=opened.until - now), timedelta(seconds=opened.pause))

    def open(self, error: E, *, began: float | None = None) -> None:
        """Open the breaker after a failure. If the request `began` before the last failure was recorded, its failure is
        ignored."""
        now, before = self._now(), self._opened
        if before is not None and began is not None and began <= before.noted_at:
            return
        pause = self._first
        if before is not None and self._longest is not None:
            pause = min(before.pause * 2, self._longest)
        self._opened = _Opened(error=error, noted_at=now, pause=pause, until=now + pause)

    def close(self) -> None:
        """Close the breaker, after a success or when the cause may have been removed."""
        self._opened = None
