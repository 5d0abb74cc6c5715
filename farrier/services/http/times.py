"""The clocks and the pauses of service clients. Both are real unless a test replaces them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from farrier import protocols


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of a client. `wall` is the time of day, used only for signatures; `pause` waits before a read is
    repeated."""

    clock: protocols.Clock
    wall: Callable[[], float] = time.time
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
