"""What the loops of one process share: settings, where to report, the clock, and what the process owns."""

from __future__ import annotations

import msgspec

from farrier.config import ControllerConfig
from farrier.controller.ownership import Ownership
from farrier.protocols import Clock, MetricsSink


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Made by `wiring`; `owner` keeps `ownership` up to date."""

    config: ControllerConfig
    sink: MetricsSink
    clock: Clock
    ownership: Ownership

    def may_act(self) -> bool:
        """Whether a run may begin and a step may go on now: asked of the clock, because a process that was stopped
        goes on before its timers do."""
        return self.ownership.may_act(self.clock.monotonic())
