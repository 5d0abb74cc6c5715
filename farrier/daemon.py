"""The daemon: what is started in which order, what runs beside what, and how it all ends.

Up: HTTP, database, schema, listener, loop, READY. Down: STOPPING, no more claims, drain under a deadline,
rows given back, connections closed, HTTP last. One root task group owns every task; one that ends without
being asked brings the daemon down and is named in the log. The daemon touches no table: rooms do, and
`wiring` makes them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import timedelta
from functools import partial

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

import farrier
from farrier import log, memory, wiring
from farrier.config import Config
from farrier.errors import ConfigError, ExitCode, FarrierError, InternalError
from farrier.metrics.sink import PrometheusSink
from farrier.systemd import Notifier
from farrier.web.server import serving
from farrier.web.site import Site

_log = structlog.stdlib.get_logger(__name__)

# The loop gets over a shorter silence of the database by itself: still ready.
_SILENCE = timedelta(seconds=5)
# How often the claims are looked at when systemd does not say how often it wants to hear of them.
_LOOK_EVERY = timedelta(seconds=1)


class Serving(msgspec.Struct, frozen=True):
    """What is known once the daemon is ready."""

    url: str
    dsn: str


class Daemon:
    """One process's daemon. `stop` ends it, but may be set only once it is ready; cancel a start instead."""

    def __init__(self, config: Config, stop: anyio.Event, *, notifier: Notifier | None = None) -> None:
        self._config = config
        self._stop = stop
        self._notifier = notifier or Notifier()
        self._waits_for: str | None = "the database"
        self._progress: wiring.Progress | None = None

    async def run(self, *, task_status: TaskStatus[Serving] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report to `task_status`, work until `stop`, drain. Raises what prevents the start, and
        InternalError for a task that ended by itself; errors of tasks come in exception groups."""
        config = self._config
        sink = PrometheusSink(wiring.vocabulary())
        gauges = wiring.fleet_gauges()
        sink.registry.register(gauges)
        sink.registry.register(wiring.trust_gauge(config.bmc))
        site = Site(sink.registry, unready_because=self._unready_because, refresh=gauges.refresh)
        _log.info("daemon.starting", version=farrier.__version__, pid=os.getpid())
        async with serving(site.app, host=config.http.host, port=config.http.port) as url:
            _log.info("http.listening", url=url)
            async with wiring.database(config.database) as database:
                _log.info("database.reached")
                self._waits_for = "the schema"
                _log.info("schema.current", version=await wiring.prepare(database, config))
                async with (
                    wiring.backend(config, database, observer=sink) as backend,
                    wiring.runtime(config, database, sink=sink, observer=sink) as runtime,
                ):
                    site.open(backend)
                    gauges.open(backend.queries)
                    self._waits_for = "the first claim"
                    await self._work(runtime, lambda: task_status.started(Serving(url, database.dsn)))
            _log.info("database.closed")
        _log.info("daemon.stopped")

    @property
    def is_ready(self) -> bool:
        """The loop has begun: from here on there is something to drain."""
        return self._progress is not None

    async def _work(self, runtime: wiring.Runtime, started: Callable[[], None]) -> None:
        async with anyio.create_task_group() as beside:
            if runtime.listener is not None:
                beside.start_soon(until_stopped, "listener", runtime.listener.run, self._stop)
            beside.start_soon(until_stopped, "watchdog", partial(self._watch, runtime.progress), self._stop)
            async with anyio.create_task_group() as loop:
                loop.start_soon(until_stopped, "processor", partial(runtime.processor.run, self._stop), self._stop)
                await runtime.progress.first_claim.wait()
                self._waits_for, self._progress = None, runtime.progress
                memory.settle()
                _log.info("daemon.ready", controller=str(runtime.owner))
                self._notifier.ready()
                started()
                await self._stop.wait()
                self._waits_for = "nothing more: it stops"
                self._notifier.stopping()
                _log.info("daemon.stopping", in_flight=runtime.processor.in_flight)
            beside.cancel_scope.cancel()

    async def _watch(self, progress: wiring.Progress) -> None:
        """Tell systemd that we live as long as each claim loop comes back from its claims. An unreachable
        database is no reason to be killed: it would not be there for our successor either."""
        patience = self._notifier.watchdog
        while True:
            if patience is not None and progress.stalled_for() < patience:
                self._notifier.alive()
            self._notifier.status(self._unready_because() or "at work")
            await anyio.sleep((patience / 3 if patience else _LOOK_EVERY).total_seconds())

    def _unready_because(self) -> str | None:
        if self._waits_for is not None:
            return f"waiting for {self._waits_for}"
        if self._progress is not None and (silence := self._progress.unanswered_for()) > _SILENCE:
            return f"the database has not answered a claim for {silence.total_seconds():.0f} s"
        return None


async def until_stopped(name: str, work: Callable[[], Awaitable[None]], stop: anyio.Event) -> None:
    """Do `work`, which must not end before `stop` is set; what it raises is logged with its name. Raises
    InternalError if it does end."""
    try:
        await work()
    except Exception as error:
        _log.critical("task.failed", task=name, exc_info=error)
        raise
    if not stop.is_set():
        raise InternalError(f"task {name} ended by itself")


def main(config: Config, reload: Callable[[], Config]) -> ExitCode:
    """Run the daemon as this process until a signal ends it. `reload` reads the configuration again, for
    SIGHUP. Whatever prevents or ends the work is logged, never raised."""
    try:
        return anyio.run(_main, config, reload, backend_options={"use_uvloop": True})
    except Exception as failure:
        return _explained(failure)


async def _main(config: Config, reload: Callable[[], Config]) -> ExitCode:
    stop = anyio.Event()
    notifier = Notifier()
    daemon = Daemon(config, stop, notifier=notifier)
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    with anyio.open_signal_receiver(*signals) as received:
        async with anyio.create_task_group() as beside:
            with anyio.CancelScope() as life:
                again = partial(_reload, config, reload, notifier)
                beside.start_soon(_obey, received, daemon, stop, life, again)
                await daemon.run()
            beside.cancel_scope.cancel()
    cut_short = life.cancelled_caught and stop.is_set()
    return ExitCode.FAILED if cut_short else ExitCode.OK


async def _obey(
    received: AsyncIterable[signal.Signals],
    daemon: Daemon,
    stop: anyio.Event,
    life: anyio.CancelScope,
    reload: Callable[[], None],
) -> None:
    """The first signal drains, the second does not wait for it. Before there is anything to drain, one is
    enough."""
    async for number in received:
        if number == signal.SIGHUP:
            reload()
        elif daemon.is_ready and not stop.is_set():
            _log.info("signal.stop", signal=number.name)
            stop.set()
        else:
            _log.warning("signal.stop_now", signal=number.name)
            life.cancel()


def _reload(config: Config, read: Callable[[], Config], notifier: Notifier) -> None:
    """What is logged may change while we run; the rest takes a restart, and that is said."""
    notifier.reloading()
    try:
        new = read()
    except ConfigError as refused:
        _log.error("config.refused", error=str(refused))
    else:
        log.configure(new.log.level, new.log.format)
        changed = [name for name in Config.__struct_fields__ if getattr(new, name) != getattr(config, name)]
        needs_restart = [name for name in changed if name != "log"]
        _log.info("config.reloaded", needs_restart=needs_restart)
    notifier.ready()


def _explained(failure: Exception) -> ExitCode:
    """Log why we end; a traceback only for what nobody foresaw."""
    known = foreseen(failure)
    if known is None:
        _log.critical("daemon.failed", exc_info=failure)
        return ExitCode.FAILED
    _log.critical("daemon.failed", error=str(known), label=known.label)
    return known.exit_code


def foreseen(failure: BaseException) -> FarrierError | None:
    """The first error in a group of errors that we know by name."""
    if isinstance(failure, FarrierError):
        return failure
    if isinstance(failure, BaseExceptionGroup):
        return next((known for inner in failure.exceptions if (known := foreseen(inner))), None)
    return None
