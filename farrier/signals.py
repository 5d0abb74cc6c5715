"""Yields the signals that this process receives, without repeated deliveries.

If a second signal arrives while the loop reads a first one, uvloop 0.23 delivers the second signal twice
(`Loop._invoke_signals`). For example, a stop signal may directly follow a reload signal. A second stop signal ends the
process without a drain, so a signal that is delivered twice must count once.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterable, AsyncIterator

from farrier.clock import MonotonicClock
from farrier.protocols import Clock

# This is longer than an iteration of a busy loop, and shorter than the time after which a person presses Ctrl-C again.
_SECONDS = 0.3


async def distinct(
    received: AsyncIterable[signal.Signals], clock: Clock | None = None
) -> AsyncIterator[signal.Signals]:
    """Yield every signal, except a repetition of the same signal within 0.3 s. SIGHUP is always yielded, because a file
    may have changed in between."""
    clock = clock or MonotonicClock()
    last: dict[signal.Signals, float] = {}
    async for number in received:
        now = clock.monotonic()
        if number == signal.SIGHUP or now - last.get(number, -math.inf) >= _SECONDS:
            last[number] = now
            yield number
