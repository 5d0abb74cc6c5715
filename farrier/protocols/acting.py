"""Whether a step may act now: asked immediately before each request that changes something outside.

The controller says so for each step that it runs, by way of the context, so that tasks of the step ask the same. A step
whose process was stopped (SIGSTOP, a paused virtual machine) goes on before its timers do, and would act once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_may_act: ContextVar[Callable[[], None] | None] = ContextVar("farrier_may_act", default=None)


@contextmanager
def acting_while(require: Callable[[], None]) -> Iterator[None]:
    """Run a step inside the block. `require` raises `LeaseLost` as soon as the step must not act any more."""
    before = _may_act.set(require)
    try:
        yield
    finally:
        _may_act.reset(before)


def require_lease() -> None:
    """Call this immediately before a request that changes something outside, with no `await` in between. Raises
    `LeaseLost` if the controller lost its right to act: then nothing may be sent. Outside of a step it allows
    everything."""
    require = _may_act.get()
    if require is not None:
        require()
