"""What every process of farrier has in common: signals, tasks that must not end, and the error with which it ends.

`daemon` and `server` call `run`. The first stop signal ends the work in order, and the second signal ends the process
at once. SIGHUP reads files and settings again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterable, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import structlog

from farrier.errors import ExitCode, FarrierError, InternalError
from farrier.signals import distinct

_log = structlog.stdlib.get_logger(__name__)

# How long tasks may take to end after a second stop signal, in seconds. Longer than the time limits of the tasks that
# continue after a cancellation: they end the sessions of BMCs, the pool, the other servers, and an embedded server.
_ENDS_WITHIN = 20.0
# A server under attack must not delay the controller beside it. With this nice value, a process gets a ninth of the
# processor time of one with the value 0, if both want all of it. Where Linux shares processors out among sessions, a
# nice value counts only in its session, and the session has one, too.
_NICE = 10
_SESSION = Path("/proc/self/autogroup")
# Ordinary users, together, may write such a file every tenth of a second.
_WRITE_EVERY, _WRITES = 0.11, 4


class ProcessPart(Protocol):
    """The work of a process. It ends in order once its event `stop` is set."""

    is_ready: bool
    """Whether the work has begun, so that a stop signal must end it in order."""

    async def run(self) -> None:
        """Work until `stop` is set."""


def run(main: Callable[[], Awaitable[ExitCode]]) -> ExitCode:
    """Run the process. Errors that prevent or end the work are logged, not raised."""
    try:
        return anyio.run(main, backend_options={"use_uvloop": True})
    except Exception as failure:
        return _explained(failure)


def give_way() -> None:
    """Let the controller beside this process, and its database, come first."""
    os.nice(_NICE)
    if os.getsid(0) != os.getpid() or not _SESSION.exists():
        return
    for _ in range(_WRITES):
        try:
            _SESSION.write_text(str(_NICE))
        except BlockingIOError:
            time.sleep(_WRITE_EVERY)
        except OSError:  # a sandbox forbids it
            return
        else:
            return


async def work(part: ProcessPart, stop: anyio.Event, reload: Callable[[], Awaitable[None]]) -> ExitCode:
    """Do the work of the part until a signal ends it. On SIGHUP, call `reload`."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async with anyio.create_task_group() as beside:
            with anyio.CancelScope() as life:
                beside.start_soon(obey, distinct(received), part, stop, partial(end, life, stop), reload)
                await part.run()
            beside.cancel_scope.cancel()
    cut_short = life.cancelled_caught and stop.is_set()
    return ExitCode.FAILED if cut_short else ExitCode.OK


async def until_stopped(name: str, task: Callable[[], Awaitable[None]], stop: anyio.Event) -> None:
    """Run `task`, which must not end before `stop` is set. If `task` raises an error, log it with the task's name and
    raise it again. Raises InternalError if `task` returns too early."""
    try:
        await task()
    except Exception as error:
        _log.critical("task.failed", task=name, exc_info=error)
        raise
    if not stop.is_set():
        raise InternalError(f"task {name} ended unexpectedly")


async def obey(
    received: AsyncIterable[signal.Signals],
    part: ProcessPart,
    stop: anyio.Event,
    end_now: Callable[[], None],
    reload: Callable[[], Awaitable[None]],
) -> None:
    """End in order on the first stop signal. End at once on the second stop signal, or on the first if the work has not
    begun. A reload may wait for the database; signals do not wait for the reload.
    """
    asked, to_do = anyio.create_memory_object_stream[None](1)
    async with to_do, anyio.create_task_group() as beside, asked:
        beside.start_soon(_one_by_one, to_do, reload)
        async for number in received:
            if number == signal.SIGHUP:
                with contextlib.suppress(anyio.WouldBlock):  # a reload that has not begun yet also covers this signal
                    asked.send_nowait(None)
            elif part.is_ready and not stop.is_set():
                _log.info("signal.stop", signal=number.name)
                stop.set()
            else:
                _log.warning("signal.stop_now", signal=number.name)
                end_now()


def end(life: anyio.CancelScope, stop: anyio.Event) -> None:
    """Cancel all tasks. After a second signal, also end the process if a task does not end: a step of another package
    may ignore its cancellation, and a thread cannot be cancelled."""
    is_second = stop.is_set() or life.cancel_called
    life.cancel()
    if not is_second:
        return
    # In a separate thread, because an exit of the interpreter may wait for other threads.
    exit_ = threading.Timer(_ENDS_WITHIN, _abandon)
    exit_.daemon = True
    exit_.start()


def _abandon() -> None:
    _log.critical("process.abandoned", seconds=_ENDS_WITHIN)
    os._exit(ExitCode.FAILED)


async def _one_by_one(asked: AsyncIterable[None], reload: Callable[[], Awaitable[None]]) -> None:
    async for _ in asked:
        await reload()


def _explained(failure: Exception) -> ExitCode:
    """Log why the process ends. Only an unexpected error is logged with a traceback."""
    known = foreseen(failure)
    if known is None:
        _log.critical("process.failed", exc_info=failure)
        return ExitCode.FAILED
    _log.critical("process.failed", error=str(known), label=known.label)
    return known.exit_code


def foreseen(failure: BaseException) -> FarrierError | None:
    """Return the first FarrierError in a group of errors, if any."""
    if isinstance(failure, FarrierError):
        return failure
    if isinstance(failure, BaseExceptionGroup):
        return next((known for inner in failure.exceptions if (known := foreseen(inner))), None)
    return None
