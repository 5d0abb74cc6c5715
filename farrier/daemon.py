"""The daemon, which starts, runs and stops its parts in a fixed order.

The daemon starts HTTP, connects to the database, checks the schema, reads the sites, starts the listener and the loops,
and reports READY. To stop, the daemon reports STOPPING, drains under a deadline, releases its shards, closes the
connections, and stops HTTP last. SIGHUP reads the settings and sites again while all parts run. One root task group
owns every task. A task that ends unexpectedly stops the daemon, and the log names the task. The daemon itself reads and
writes no table; `wiring` makes the parts that read and write tables.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import timedelta
from functools import partial

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

import farrier
from farrier import log, memory, wiring
from farrier.config import Config, HttpConfig, site_files, token_file
from farrier.config.sites import Sites
from farrier.controller.controller import Controller
from farrier.errors import ConfigError, DatabaseUnreachable, ExitCode, FarrierError, InternalError
from farrier.metrics.sink import PrometheusSink
from farrier.model.counted import counted
from farrier.signals import distinct
from farrier.systemd import Notifier
from farrier.web.access import Access, is_loopback
from farrier.web.server import serving
from farrier.web.site import Site
from farrier.web.tls import Certificate

_log = structlog.stdlib.get_logger(__name__)

# If the database does not respond for a shorter time, the daemon stays ready, because the loop continues by itself
# afterwards.
_SILENCE = timedelta(seconds=5)
# How often, in seconds, the daemon compares its status line with its state, so that `systemctl status` is at most a
# second old. A line that has not changed is not sent again.
_LOOK_EVERY = 0.5
# How long tasks may take to end after a second stop signal, in seconds. Longer than the time limits of the tasks that
# continue after a cancellation: they end the sessions of BMCs, the pool, and an embedded server.
_ENDS_WITHIN = 20.0
# Sections of the settings that SIGHUP applies without a restart.
_RELOADED = frozenset({"log", "sites"})


class Serving(msgspec.Struct, frozen=True):
    """The URL and DSN of a daemon that is ready."""

    url: str
    dsn: str


class Daemon:
    """The daemon of a process. To end it, set `stop`; before it is ready, cancel `run` instead."""

    def __init__(self, config: Config, stop: anyio.Event, *, notifier: Notifier | None = None) -> None:
        self._config = config
        self._stop = stop
        self._notifier = notifier or Notifier()
        self._waits_for: str | None = "the database"
        self.is_ready = False  # whether the loop has begun, so that a stop must drain it
        self._runtime: wiring.Runtime | None = None
        self._sites: Sites = {}
        self._access = Access(loopback=is_loopback(config.http.host))
        self._certificate: Certificate | None = None

    async def run(self, *, task_status: TaskStatus[Serving] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report to `task_status`, work until `stop`, then drain. Raises the error that prevented the start, and
        InternalError if a task ended too early. Errors of tasks are raised in exception groups."""
        config = self._config
        self._sites = site_files.load(config.sites.directory, config.agents)
        self.use_tokens()
        _warn_without_token(config.http)
        if config.http.tls_cert:
            self._certificate = Certificate(config.http.tls_cert, config.http.tls_key)
            _warn_of_certificate(self._certificate)
        extensions = wiring.extensions(config.controller.kinds)
        sink = PrometheusSink(wiring.vocabulary(wiring.specs_of(extensions)), named=config.metrics.name_resources)
        gauges = wiring.fleet_gauges(config)
        sink.registry.register(gauges)
        for gauge in wiring.trust_gauges(config.bmc):
            sink.registry.register(gauge)
        names = (config.http.host, *config.http.names)
        site = Site(
            sink.registry,
            unready_because=self._unready_because,
            refresh=gauges.refresh,
            names=names,
            access=self._access,
        )
        tls = None if self._certificate is None else self._certificate.context
        _log.info("daemon.starting", version=farrier.__version__, pid=os.getpid())
        async with (
            wiring.tracing(config.traces) as traces,
            serving(site.app, host=config.http.host, port=config.http.port, tls=tls) as url,
        ):
            _log.info("http.listening", url=url)
            self._begin_to_wait_for("the database")
            async with wiring.database(config.database) as database:
                _log.info("database.reached")
                self._begin_to_wait_for("the schema")
                patiently = partial(wiring.persistently, patience=config.database.db_timeout)
                _log.info("schema.current", version=await patiently(partial(wiring.prepare, database, config)))
                await patiently(partial(wiring.require_kinds, database, extensions))
                async with (
                    wiring.backend(config, database, observer=sink) as backend,
                    wiring.runtime(
                        config, database, sink=sink, observer=sink, extensions=extensions, traces=traces
                    ) as runtime,
                    wiring.counter(config.database, database) as counter,
                ):
                    site.open(backend)
                    await self._begin_with_sites(runtime)
                    self._begin_to_wait_for("its first shards")
                    figures = partial(gauges.run, counter)
                    await self._work(runtime, figures, lambda: task_status.started(Serving(url, database.dsn)))
            _log.info("database.closed")
        log.write_repeats(at_once=True)
        _log.info("daemon.stopped")

    def use_tokens(self) -> None:
        """Read the tokens file again. On ConfigError, the daemon keeps its previous tokens."""
        tokens = token_file.load(self._config.http.tokens_file)
        self._access.use(tokens)
        _log.info("tokens.used", clients=[token.name for token in tokens])

    def use_certificate(self) -> None:
        """Read the files of the certificate again. On ConfigError, the daemon keeps its previous certificate."""
        if self._certificate is not None:
            self._certificate.reload()
            _warn_of_certificate(self._certificate)

    async def use_sites(self, sites: Sites) -> None:
        """Use these sites from now on, or as soon as the daemon has started. On ConfigError and DatabaseUnreachable,
        the daemon keeps its previous sites."""
        if self._runtime is not None:
            await _use(self._runtime, sites)
        self._sites = sites

    async def _begin_with_sites(self, runtime: wiring.Runtime) -> None:
        """Use the sites that were read last, even if SIGHUP replaces the sites at the same time."""
        used = None
        while used is not self._sites:
            used = self._sites
            await wiring.persistently(partial(_use, runtime, used), patience=self._config.database.db_timeout)
        self._runtime = runtime

    @property
    def serves(self) -> bool:
        """Whether the daemon is ready and not stopping."""
        return self.is_ready and not self._stop.is_set()

    async def _work(
        self, runtime: wiring.Runtime, figures: Callable[[], Awaitable[None]], started: Callable[[], None]
    ) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(until_stopped, "figures", figures, self._stop)
            for name, work in runtime.background.items():
                beside.start_soon(until_stopped, name, work, self._stop)
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


def _warn_without_token(http: HttpConfig) -> None:
    """Log once, before a request arrives, that farrier will refuse clients because it has no token."""
    if not (is_loopback(http.host) or http.tokens_file or http.bearer_token):
        _log.warning(
            "http.no_token",
            host=http.host,
            reason="other machines can reach this server, so each request needs a token, except for metrics and probes",
            hint="run farrier token create, and set http.tokens_file; or set http.host to 127.0.0.1",
        )


def _warn_of_certificate(certificate: Certificate) -> None:
    """Log why clients will refuse the certificate. It is served nevertheless: an operator can still open the pages."""
    if (fault := certificate.fault()) is not None:
        _log.warning("certificate.faulty", reason=fault, hint="renew http.tls_cert, then send SIGHUP")


async def _use(runtime: wiring.Runtime, sites: Sites) -> None:
    await runtime.use_sites(sites)
    _log.info("sites.used", sites=sorted(sites))


async def until_stopped(name: str, work: Callable[[], Awaitable[None]], stop: anyio.Event) -> None:
    """Run `work`, which must not end before `stop` is set. If `work` raises an error, log it with the task's name and
    raise it again. Raises InternalError if `work` returns too early."""
    try:
        await work()
    except Exception as error:
        _log.critical("task.failed", task=name, exc_info=error)
        raise
    if not stop.is_set():
        raise InternalError(f"task {name} ended unexpectedly")


def main(config: Config, reload: Callable[[], Config]) -> ExitCode:
    """Run the daemon in this process until a signal ends it. On SIGHUP, `reload` reads the configuration again. Errors
    that prevent or end the work are logged, not raised."""
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
                again = partial(_reload, config, reload, daemon, notifier)
                beside.start_soon(obey, distinct(received), daemon, stop, partial(end, life, stop), again)
                await daemon.run()
            beside.cancel_scope.cancel()
    cut_short = life.cancelled_caught and stop.is_set()
    return ExitCode.FAILED if cut_short else ExitCode.OK


async def obey(
    received: AsyncIterable[signal.Signals],
    daemon: Daemon,
    stop: anyio.Event,
    end_now: Callable[[], None],
    reload: Callable[[], Awaitable[None]],
) -> None:
    """Drain on the first stop signal. End at once on the second stop signal, or on the first if the loop has not begun.
    A reload may wait for the database; signals do not wait for the reload.
    """
    asked, to_do = anyio.create_memory_object_stream[None](1)
    async with to_do, anyio.create_task_group() as beside, asked:
        beside.start_soon(_one_by_one, to_do, reload)
        async for number in received:
            if number == signal.SIGHUP:
                with contextlib.suppress(anyio.WouldBlock):  # a reload that has not begun yet also covers this signal
                    asked.send_nowait(None)
            elif daemon.is_ready and not stop.is_set():
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
    _log.critical("daemon.abandoned", seconds=_ENDS_WITHIN)
    os._exit(ExitCode.FAILED)


async def _one_by_one(asked: AsyncIterable[None], reload: Callable[[], Awaitable[None]]) -> None:
    async for _ in asked:
        await reload()


async def _reload(config: Config, read: Callable[[], Config], daemon: Daemon, notifier: Notifier) -> None:
    """Apply changes of tokens, certificate, logging and sites to the running daemon; the log names changes that need a
    restart. Tokens come first, so that the revocation of a token does not depend on the files of sites."""
    if daemon.serves:  # systemd expects RELOADING only between READY and STOPPING
        notifier.reloading()
    log.forget_repeats()
    try:
        daemon.use_tokens()
    except ConfigError as refused:
        _log.error("tokens.refused", error=str(refused))
    try:
        daemon.use_certificate()
    except ConfigError as refused:
        _log.error("certificate.refused", error=str(refused))
    try:
        new = read()
        sites = site_files.load(new.sites.directory, new.agents)
        await daemon.use_sites(sites)
    except (ConfigError, DatabaseUnreachable) as refused:
        _log.error("config.refused", error=str(refused))
    else:
        log.write_repeats(at_once=True)
        log.configure(new.log.level, new.log.format)
        changed = [name for name in Config.__struct_fields__ if getattr(new, name) != getattr(config, name)]
        needs_restart = [name for name in changed if name not in _RELOADED]
        _log.info("config.reloaded", needs_restart=needs_restart)
    if daemon.serves:
        notifier.ready()


def _explained(failure: Exception) -> ExitCode:
    """Log why the process ends. Only an unexpected error is logged with a traceback."""
    known = foreseen(failure)
    if known is None:
        _log.critical("daemon.failed", exc_info=failure)
        return ExitCode.FAILED
    _log.critical("daemon.failed", error=str(known), label=known.label)
    return known.exit_code


def foreseen(failure: BaseException) -> FarrierError | None:
    """Return the first FarrierError in a group of errors, if any."""
    if isinstance(failure, FarrierError):
        return failure
    if isinstance(failure, BaseExceptionGroup):
        return next((known for inner in failure.exceptions if (known := foreseen(inner))), None)
    return None
