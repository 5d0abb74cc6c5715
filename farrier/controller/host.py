"""What the parts of one processor share, so that each is handed two or three things and not ten.

`Host` is the process as the loop sees it; `wiring` makes one for all processors. `Core` adds one kind's
storage and the claims held; the processor makes it for its parts.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from farrier.config import ControllerConfig
from farrier.controller.lease import Leases
from farrier.protocols import Clock, MetricsSink, StateIO

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, where to report, and the clock that leases are counted by."""

    config: ControllerConfig
    sink: MetricsSink
    clock: Clock


class Core(msgspec.Struct, Generic[R, S, W], frozen=True, kw_only=True):
    """One kind at work in its process."""

    kind: str
    io: StateIO[R, S, W]
    leases: Leases
    host: Host
