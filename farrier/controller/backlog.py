"""When a step that found no slot may find one: the later, the more have been put off before it.

Held by `steps`. A thousand that were tried each second would be loaded and decided only to be put off again. How fast
they are let in is measured while there are too few slots. It is slower than slots become free: a resource that goes on
from one step to the next takes its own again.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.protocols import Clock

# Never at once: what found no slot now would be loaded and put off again in a tight loop.
SOONEST = timedelta(seconds=1)
# Slots may become free sooner than they have until now, and then a step should be there to take them.
LATEST = timedelta(seconds=15)
# About the last twenty who were let in.
_WEIGHT = 0.1
_FIRST_GUESS_SECONDS = 0.02


class Backlog:
    """Those who were put off, as one moment up to which places are promised."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._each = _FIRST_GUESS_SECONDS
        self._last_in: float | None = None
        self._promised = float("-inf")

    def let_in(self, count: int) -> None:
        """Record how many new entries got a slot."""
        now = self._clock.monotonic()
        if self._last_in is not None and count > 0:
            each = (now - self._last_in) / count
            self._each += (1 - (1 - _WEIGHT) ** count) * (each - self._each)
            self._last_in = now

    def over(self) -> None:
        """Record that slots are free again, and forget how fast the queue moved."""
        self._last_in = None
        self._promised = float("-inf")

    def put_off(self, count: int) -> timedelta:
        """How long so many deferred entries should wait before they retry."""
        now = self._clock.monotonic()
        if self._last_in is None:
            self._last_in = now
        wait = min(max(self._promised - now, SOONEST.total_seconds()), LATEST.total_seconds())
        # Where none was let in for long, the next waits as long at the least.
        self._promised = now + wait + count * max(self._each, now - self._last_in)
        return timedelta(seconds=wait)
