"""What tells a client of a service the time, and lets it pass: real ones, unless a test brings its own.

Made by `wiring`, and taken by each client and what it sends with. Nothing here knows a service.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from farrier import protocols


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """What tells the time: `wall` for signatures alone, `pause` between the tries of a read."""

    clock: protocols.Clock
    wall: Callable[[], float] = time.time
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
