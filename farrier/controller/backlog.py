"""Computes when a step that found no slot retries: the more steps were deferred before it, the later.

A thousand steps that retried each second would be loaded and decided only to be deferred again. The rate at which steps
get slots is measured while there are too few. It is lower than the rate at which slots become free, because a resource
with another step takes its own slot again.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.protocols import Clock

# Never at once: the step would be loaded and deferred again in a tight loop.
SOONEST = timedelta(seconds=1)
# Slots may become free sooner than before; steps must then be there to use them.
LATEST = timedelta(seconds=15)
# About the last twenty steps that got a slot.
_WEIGHT = 0.1
_FIRST_GUESS_SECONDS = 0.02


class Backlog:
    """The deferred steps, as one moment up to which slots are promised."""

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

    def defer(self, count: int) -> timedelta:
        """How long `count` steps without a slot wait before they retry."""
        now = self._clock.monotonic()
        if self._last_in is None:
            self._last_in = now
        wait = min(max(self._promised - now, SOONEST.total_seconds()), LATEST.total_seconds())
        # If no step got a slot for long, the next one waits at least as long.
        self._promised = now + wait + count * max(self._each, now - self._last_in)
        return timedelta(seconds=wait)
