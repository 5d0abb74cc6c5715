"""Awaits work of a kind's package, and reports each part of the work that blocked all other tasks of the process."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any

import structlog

from farrier.controller.agenda import AgendaEntry

_log = structlog.stdlib.get_logger(__name__)

BLOCKED = 1.0
"""If a part of a run blocks all other tasks for more than this number of seconds, the part is logged. Longer parts
endanger the lease, which the process has to renew within six seconds."""


@coroutine
def watched(work: Awaitable[object], stalled: Callable[[float], None]) -> Generator[Any, Any, object]:
    """Await `work` and return its result. If a part between two awaits takes longer than `BLOCKED`, call `stalled` with
    the duration of this part in seconds. Tasks that the work starts are not measured."""
    parts = _awaited(work)
    resume: Callable[[Any], Any] = parts.send
    value: Any = None
    while True:
        began = time.perf_counter()
        try:
            waits_for = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            seconds = time.perf_counter() - began
            if seconds > BLOCKED:
                stalled(seconds)
        try:
            resume, value = parts.send, (yield waits_for)
        except BaseException as error:  # a cancellation, which the work itself has to receive
            resume, value = parts.throw, error


async def _awaited(work: Awaitable[object]) -> object:
    return await work


def log_blocked(kind: str, entry: AgendaEntry[Any], seconds: float) -> None:
    """Log a decision that blocked everything else in this process, even the renewal of its row."""
    name = None if entry.snapshot is None else entry.snapshot.name
    _log.warning("handler.blocked", kind=kind, id=entry.id, name=name, seconds=round(seconds, 1))
