"""When a step that found no slot may find one: the later, the more have been put off before it.

Held by `steps`. A thousand that came again each second would be claimed, loaded and decided only to be put off again.
How fast slots become free is measured while there are too few of them.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.protocols import Clock

# Never at once: whatever is short now would be claimed, loaded and given back in a tight loop.
SOONEST = timedelta(seconds=1)
# Slots may become free sooner than they have until now, and then somebody should be there.
LATEST = timedelta(seconds=15)
# About the last twenty ends.
_WEIGHT = 0.1
_FIRST_GUESS_SECONDS = 0.02


class Backlog:
    """Those who were put off, as one moment up to which places are promised."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._each = _FIRST_GUESS_SECONDS
        self._last_end: float | None = None
        self._promised = float("-inf")

    def ended(self) -> None:
        """A slot is free again."""
        now = self._clock.monotonic()
        if self._last_end is not None:
            self._each += _WEIGHT * (now - self._last_end - self._each)
            self._last_end = now

    def over(self) -> None:
        """There was room for all: how fast slots become free says nothing from now on."""
        self._last_end = None
        self._promised = float("-inf")

    def put_off(self, count: int) -> timedelta:
        """How long until so many, of whom this is told now, should try again."""
        now = self._clock.monotonic()
        if self._last_end is None:
            self._last_end = now
        wait = min(max(self._promised - now, SOONEST.total_seconds()), LATEST.total_seconds())
        # Where none has ended for long, the next takes as long at the least.
        self._promised = now + wait + count * max(self._each, now - self._last_end)
        return timedelta(seconds=wait)
