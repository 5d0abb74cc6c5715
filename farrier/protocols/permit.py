"""Checks that a step may act now, immediately before each request that changes an outside service.

The controller sets the check for each step in a context variable, so that all tasks of the step use it. If a process
was stopped (SIGSTOP, a paused virtual machine), its steps continue before its timers fire. Without this check, they
would act without the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_may_act: ContextVar[Callable[[], None] | None] = ContextVar("farrier_may_act", default=None)


@contextmanager
def acting_while(require: Callable[[], None]) -> Iterator[None]:
    """Run a step inside the block. `require` raises `LeaseLost` if the step must no longer act."""
    before = _may_act.set(require)
    try:
        yield
    finally:
        _may_act.reset(before)


def require_lease() -> None:
    """Check the right to act. Call this immediately before a request that changes an outside service, with no `await`
    between the check and the request. Raises `LeaseLost` if the controller has lost this right; the caller must then
    send nothing. Outside of a step, every request is allowed."""
    require = _may_act.get()
    if require is not None:
        require()
