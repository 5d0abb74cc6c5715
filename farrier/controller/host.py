"""The data that all loops of one process share: settings, metrics, clock and ownership."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import msgspec

from farrier.config import ControllerConfig
from farrier.controller.ownership import Ownership
from farrier.errors import DatabaseUnreachable
from farrier.protocols import Clock, MetricsSink


class LoopContext(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the loops of one process share. `wiring` creates it, and `Controller` keeps `ownership` up to
    date."""

    config: ControllerConfig
    sink: MetricsSink
    clock: Clock
    ownership: Ownership
    # One connection at most serves the runs whose rows other transactions have locked.
    for_locked: anyio.Lock = msgspec.field(default_factory=anyio.Lock)

    def may_act(self) -> bool:
        """Return whether a run may begin and a step may continue now. This method reads the clock instead of relying on
        a timer: when a process continues after SIGSTOP, its steps run before its timers fire."""
        return self.clock.monotonic() <= self.ownership.acts_until


@contextmanager
def asked(seconds: float, log: Callable[[str], None], *, shield: bool = False) -> Iterator[None]:
    """Run the block as a request to the database. If the database fails or does not respond in time, the block ends,
    and the reason is logged to `log`."""
    try:
        with anyio.fail_after(seconds, shield=shield):
            yield
    except (DatabaseUnreachable, TimeoutError) as error:
        log(str(error))
