"""The daemon, which starts, runs and stops its parts in a fixed order.

The daemon serves its metrics and probes, connects to the database, checks the schema, reads the sites, starts the
listener and the loops, and reports READY. To stop, the daemon reports STOPPING, drains under a deadline, releases its
shards, closes the connections, and stops HTTP last. SIGHUP reads the settings and sites again while all parts run. One
root task group owns every task. A task that ends unexpectedly stops the daemon, and the log names the task. The daemon
itself reads and writes no table; `wiring` makes the parts that read and write tables. With an embedded database, the
daemon also starts the servers of pages and agents, as processes of their own.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

import farrier
from farrier import log, memory, process
from farrier.children import Servers
from farrier.config import Config, site_files
from farrier.config.sites import Sites
from farrier.controller.controller import Controller
from farrier.errors import ConfigError, DatabaseUnreachable, ExitCode
from farrier.metrics.sink import PrometheusSink
from farrier.model.loop.doors import DoorKind
from farrier.model.plural import counted
from farrier.process import until_stopped
from farrier.systemd import Notifier
from farrier.web.server.probes import Probes
from farrier.web.server.serving import serving
from farrier.wiring import kinds, loops, storage
from farrier.wiring.traces import tracing
from farrier.wiring.vocabulary import fleet_gauges, trust_gauges, vocabulary

_log = structlog.stdlib.get_logger(__name__)

# If the database does not respond for a shorter time, the daemon stays ready, because the loop continues by itself
# afterwards.
_SILENCE = timedelta(seconds=5)
# How often, in seconds, the daemon compares its status line with its state, so that `systemctl status` is at most a
# second old. A line that has not changed is not sent again.
_LOOK_EVERY = 0.5
# Sections of the settings that SIGHUP applies without a restart.
_RELOADED = frozenset({"log", "sites"})


class Serving(msgspec.Struct, frozen=True):
    """The URL of the metrics and the DSN of a daemon that is ready, and the URLs of the servers that it started."""

    url: str
    dsn: str
    servers: Mapping[DoorKind, str]


class Daemon:
    """The daemon of a process. To end it, set `stop`; before it is ready, cancel `run` instead."""

    def __init__(
        self, config: Config, stop: anyio.Event, *, notifier: Notifier | None = None, log_to: int | None = None
    ) -> None:
        """`log_to` is the file descriptor of the log of the servers that the daemon starts. Default: standard error."""
        self._config = config
        self._stop = stop
        self._notifier = notifier or Notifier()
        self._waits_for: str | None = "the database"
        self.is_ready = False  # whether the loop has begun, so that a stop must drain it
        self._runtime: loops.Runtime | None = None
        self._sites: Sites = {}
        self._servers = None if config.database.dsn else Servers(config, log_to=log_to)

    async def run(self, *, task_status: TaskStatus[Serving] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report to `task_status`, work until `stop`, then drain. Raises the error that prevented the start, and
        InternalError if a task ended too early. Errors of tasks are raised in exception groups."""
        config = self._config
        self._sites = site_files.load(config.sites.directory, config.agents)
        extensions = kinds.extensions(config.controller.kinds)
        sink = PrometheusSink(vocabulary(kinds.specs_of(extensions)), named=config.metrics.name_resources)
        gauges = fleet_gauges(config)
        sink.registry.register(gauges)
        for gauge in trust_gauges(config.bmc):
            sink.registry.register(gauge)
        probes = Probes(sink.registry, unready_because=self._unready_because, refresh=gauges.refresh)
        at = config.metrics
        _log.info("daemon.starting", version=farrier.__version__, pid=os.getpid())
        async with AsyncExitStack() as stack:
            traces = await stack.enter_async_context(tracing(config.traces))
            url = await stack.enter_async_context(serving(probes.app, host=at.host, port=at.port, section="metrics"))
            _log.info("http.listening", url=url)
            servers = {} if self._servers is None else stack.enter_context(self._servers).urls
            for kind, of_server in servers.items():
                _log.info("http.listening", url=of_server, server=kind)
            self._begin_to_wait_for("the database")
            async with storage.database(config.database) as database:
                _log.info("database.reached")
                self._begin_to_wait_for("the schema")
                patiently = partial(storage.persistently, patience=config.database.db_timeout)
                _log.info("schema.current", version=await patiently(partial(storage.prepare, database, config)))
                await patiently(partial(kinds.require_kinds, database, extensions))
                async with (
                    loops.runtime(
                        config, database, sink=sink, observer=sink, extensions=extensions, traces=traces
                    ) as runtime,
                    storage.counter(config.database, database) as counter,
                ):
                    await self._begin_with_sites(runtime)
                    self._begin_to_wait_for("its first shards")
                    beside = {"figures": partial(gauges.run, counter)}
                    if self._servers is not None:
                        beside["servers"] = partial(self._servers.run, database.dsn)
                    await self._work(runtime, beside, lambda: task_status.started(Serving(url, database.dsn, servers)))
            _log.info("database.closed")
        log.write_repeats(at_once=True)
        _log.info("daemon.stopped")

    async def reload_servers(self, config: Config) -> None:
        """Let the servers that the daemon started read their files again, and use these settings of the log."""
        if self._servers is not None:
            await self._servers.reload(config)

    async def use_sites(self, sites: Sites) -> None:
        """Use these sites from now on, or as soon as the daemon has started. On ConfigError and DatabaseUnreachable,
        the daemon keeps its previous sites."""
        if self._runtime is not None:
            await _use(self._runtime, sites)
        self._sites = sites

    async def _begin_with_sites(self, runtime: loops.Runtime) -> None:
        """Use the sites that were read last, even if SIGHUP replaces the sites at the same time."""
        used = None
        while used is not self._sites:
            used = self._sites
            await storage.persistently(partial(_use, runtime, used), patience=self._config.database.db_timeout)
        self._runtime = runtime

    @property
    def serves(self) -> bool:
        """Whether the daemon is ready and not stopping."""
        return self.is_ready and not self._stop.is_set()

    async def _work(
        self,
        runtime: loops.Runtime,
        tasks: Mapping[str, Callable[[], Awaitable[None]]],
        started: Callable[[], None],
    ) -> None:
        async with anyio.create_task_group() as beside:
            for name, task in {**tasks, **runtime.background}.items():
                beside.start_soon(until_stopped, name, task, self._stop)
            for name, watch in {"watchdog": self._feed_watchdog, "status": self._show_status}.items():
                beside.start_soon(until_stopped, name, partial(watch, runtime.controller), self._stop)
            async with anyio.create_task_group() as loop:
                controlling = partial(runtime.controller.run, self._stop)
                loop.start_soon(until_stopped, "controller", controlling, self._stop)
                await runtime.controller.ready.wait()
                self._waits_for, self.is_ready = None, True
                memory.settle()
                _log.info("daemon.ready")
                self._notifier.status(self._status_of(runtime.controller))
                self._notifier.ready()
                started()
                await self._stop.wait()
                self._waits_for = "nothing: it is stopping"
                self._notifier.stopping()
                self._notifier.status(self._status_of(runtime.controller))
                _log.info("daemon.stopping", in_flight=runtime.controller.in_flight)
            beside.cancel_scope.cancel()

    def _begin_to_wait_for(self, what: str) -> None:
        self._waits_for = what
        self._notifier.status(f"waiting for {what}")

    async def _feed_watchdog(self, controller: Controller) -> None:
        """Notify systemd as long as the controller begins rounds, successfully or not. If the database is unreachable,
        systemd must not kill the process, because a new process could not reach the database either."""
        patience = self._notifier.watchdog
        while patience is not None:
            if controller.stalled_for() < patience:
                self._notifier.alive()
            await anyio.sleep(patience.total_seconds() / 3)
        await anyio.sleep_forever()

    async def _show_status(self, controller: Controller) -> None:
        while True:
            self._notifier.status(self._status_of(controller))
            log.write_repeats()
            await anyio.sleep(_LOOK_EVERY)

    def _status_of(self, controller: Controller) -> str:
        """Return the line that `systemctl status` shows. A failed renewal is named at once; the daemon stays ready
        for a while longer, because the loop usually continues by itself."""
        if self._stop.is_set():
            return f"stopping: {counted(controller.in_flight, 'run')} in flight"
        if (reason := self._unready_because()) is not None:
            return reason
        return (
            "at work" if controller.failing is None else f"at work, but the last renewal failed: {controller.failing}"
        )

    def _unready_because(self) -> str | None:
        if self._waits_for is not None:
            return f"waiting for {self._waits_for}"
        assert self._runtime is not None, "the daemon waits for the database first"
        if (silence := self._runtime.controller.uncommitted_for()) > _SILENCE:
            return f"the database has committed no renewal for {silence.total_seconds():.0f} s"
        return None


async def _use(runtime: loops.Runtime, sites: Sites) -> None:
    await runtime.use_sites(sites)
    _log.info("sites.used", sites=sorted(sites))


def main(config: Config, reload: Callable[[], Config]) -> ExitCode:
    """Run the daemon in this process until a signal ends it. On SIGHUP, `reload` reads the configuration again."""
    return process.run(partial(_main, config, reload))


async def _main(config: Config, reload: Callable[[], Config]) -> ExitCode:
    stop, notifier = anyio.Event(), Notifier()
    daemon = Daemon(config, stop, notifier=notifier)
    return await process.work(daemon, stop, partial(_reload, config, reload, daemon, notifier))


async def _reload(config: Config, read: Callable[[], Config], daemon: Daemon, notifier: Notifier) -> None:
    """Apply changes of logging and sites to the running daemon; the log names changes that need a restart. The servers
    come first, so that the revocation of a token does not depend on the files of sites."""
    if daemon.serves:  # systemd expects RELOADING only between READY and STOPPING
        notifier.reloading()
    log.forget_repeats()
    await daemon.reload_servers(config)
    try:
        new = read()
        sites = site_files.load(new.sites.directory, new.agents)
        await daemon.use_sites(sites)
    except (ConfigError, DatabaseUnreachable) as refused:
        _log.error("config.refused", error=str(refused))
    else:
        log.write_repeats(at_once=True)
        log.configure(new.log.level, new.log.format)
        await daemon.reload_servers(new)
        changed = [name for name in Config.__struct_fields__ if getattr(new, name) != getattr(config, name)]
        needs_restart = [name for name in changed if name not in _RELOADED]
        _log.info("config.reloaded", needs_restart=needs_restart)
    if daemon.serves:
        notifier.ready()
