"""The process of `farrier serve`, which answers people and programs, or with --agents the agents on the nodes.

The server starts HTTP, connects to the database, and checks the schema. It has a login of its own, without the rights
of the controller, and any number of servers may run. SIGHUP reads tokens and certificate again. A server that the
controller started (`children`) gets its socket from the controller.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial

import anyio
import structlog
from anyio.abc import TaskStatus

import farrier
from farrier import log, memory, process
from farrier.clock import MonotonicClock
from farrier.config import Config
from farrier.errors import ConfigError, DatabaseUnreachable, ExitCode
from farrier.io.calls.doors import PostgresDoor
from farrier.model.loop.doors import DoorKind
from farrier.process import until_stopped
from farrier.protocols import Door
from farrier.systemd import Notifier
from farrier.web.server.serving import bind, serving_on
from farrier.wiring import storage
from farrier.wiring.applications import Application, Tasks, application

_log = structlog.stdlib.get_logger(__name__)

# How often, in seconds, a server asks the database for the version of its schema.
_ASK_EVERY = 2.0
# If the database does not respond for a shorter time, in seconds, the server stays ready.
_SILENCE = 5.0
# How often, in seconds, the server compares its status line with its state.
_LOOK_EVERY = 0.5
# Settings that a server reads again on SIGHUP.
_RELOADED = frozenset({"log"})


class Server:
    """One server. To end it, set `stop`; before it is ready, cancel `run` instead."""

    def __init__(
        self,
        config: Config,
        stop: anyio.Event,
        *,
        kind: DoorKind = DoorKind.PAGES,
        notifier: Notifier | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        """`listener` is a socket that another process has bound; without it, the server binds its address."""
        self._config = config
        self._stop = stop
        self._notifier = notifier or Notifier()
        self._listener = listener
        self._kind = kind
        self._application: Application | None = None
        self._clock = MonotonicClock()
        self._answered_at = 0.0
        self._schema = 0
        self._fits = anyio.Event()  # set once the database has a schema that this release knows
        self._waits_for: str | None = "the database"
        self.is_ready = False

    async def run(self, *, task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report the URL to `task_status`, and serve until `stop`. Raises the error that prevented the start,
        and InternalError if a task ended too early."""
        config = self._config
        if not config.database.dsn:
            raise ConfigError(
                "farrier serve requires the database of a controller; set database.dsn (an embedded database starts "
                "its own servers: farrier run --embedded)"
            )
        served = self._application = application(self._kind, config, self._unready_because)
        _log.info("server.starting", version=farrier.__version__, pid=os.getpid())
        listener = self._listener or bind(served.host, served.port, section=served.section)
        tls = None if served.certificate is None else served.certificate.context
        async with serving_on(served.app, listener, tls=tls, parser=served.parser) as url:
            _log.info("http.listening", url=url)
            self._notifier.status("waiting for the database")
            async with storage.database(config.database) as database:
                _log.info("database.reached")
                self._begin_to_wait_for("the schema")
                patiently = partial(storage.persistently, patience=config.database.db_timeout)
                await patiently(partial(served.require_schema, database))
                await patiently(partial(self._ask, database))
                door = PostgresDoor(database.pool, self._kind)
                async with served.open(database, door) as tasks:
                    watches: Tasks = {
                        "schema": partial(self._keep_asking, database),
                        "pulse": partial(self._pulse, door),
                        "status": self._show_status,
                        "watchdog": self._feed_watchdog,
                    }
                    await self._work({**watches, **tasks}, lambda: task_status.started(url))
            _log.info("database.closed")
        log.write_repeats(at_once=True)
        _log.info("server.stopped")

    def reload(self) -> None:
        """Read tokens and certificate again."""
        if self._application is not None:
            self._application.reload()

    async def _work(self, tasks: Tasks, started: Callable[[], None]) -> None:
        async with anyio.create_task_group() as beside:
            for name, task in tasks.items():
                beside.start_soon(until_stopped, name, task, self._stop)
            self._waits_for, self.is_ready = None, True
            memory.settle()
            _log.info("server.ready")
            self._notifier.status(self._status)
            self._notifier.ready()
            started()
            await self._stop.wait()
            self._waits_for = "nothing: it is stopping"
            self._notifier.stopping()
            _log.info("server.stopping")
            beside.cancel_scope.cancel()

    def _begin_to_wait_for(self, what: str) -> None:
        self._waits_for = what
        self._notifier.status(f"waiting for {what}")

    async def _ask(self, database: storage.Database) -> None:
        self._schema = await storage.schema_version(database)
        self._answered_at = self._clock.monotonic()
        if self._schema in storage.known_schemas():
            self._fits.set()

    async def _keep_asking(self, database: storage.Database) -> None:
        while True:
            await anyio.sleep(_ASK_EVERY)
            try:
                await self._ask(database)
            except DatabaseUnreachable as error:
                _log.warning("database.unreachable", reason=str(error))

    async def _pulse(self, door: Door) -> None:
        """List this server in the database, as soon as the database has a schema with the functions for this."""
        await self._fits.wait()
        await door.run()

    async def _show_status(self) -> None:
        while True:
            self._notifier.status(self._status)
            log.write_repeats()
            await anyio.sleep(_LOOK_EVERY)

    async def _feed_watchdog(self) -> None:
        """Notify systemd as long as the event loop runs this task."""
        while (patience := self._notifier.watchdog) is not None:
            self._notifier.alive()
            await anyio.sleep(patience.total_seconds() / 3)
        await anyio.sleep_forever()

    @property
    def _status(self) -> str:
        return self._unready_because() or "at work"

    def _unready_because(self) -> str | None:
        if self._waits_for is not None:
            return f"waiting for {self._waits_for}"
        if (silence := self._clock.monotonic() - self._answered_at) > _SILENCE:
            return f"the database has not responded for {silence:.0f} s"
        if self._schema not in storage.known_schemas():
            known = " or ".join(map(str, storage.known_schemas()))
            return f"the schema has version {self._schema}, and this release knows version {known}"
        return None


def main(
    config: Config, kind: DoorKind, reload: Callable[[], Config], *, listener: socket.socket | None = None
) -> ExitCode:
    """Run the server in this process until a signal ends it. On SIGHUP, `reload` reads the settings again."""
    process.give_way()
    structlog.contextvars.bind_contextvars(server=kind.value)
    return process.run(partial(_main, config, kind, reload, listener))


async def _main(
    config: Config, kind: DoorKind, reload: Callable[[], Config], listener: socket.socket | None
) -> ExitCode:
    stop, notifier = anyio.Event(), Notifier()
    server = Server(config, stop, kind=kind, notifier=notifier, listener=listener)
    return await process.work(server, stop, partial(_reload, config, reload, server, notifier))


async def _reload(config: Config, read: Callable[[], Config], server: Server, notifier: Notifier) -> None:
    """Apply changes of tokens, certificate and logging; the log names changes that need a restart."""
    if server.is_ready:
        notifier.reloading()
    log.forget_repeats()
    server.reload()
    try:
        new = read()
    except ConfigError as refused:
        _log.error("config.refused", error=str(refused))
    else:
        log.write_repeats(at_once=True)
        log.configure(new.log.level, new.log.format)
        changed = [name for name in Config.__struct_fields__ if getattr(new, name) != getattr(config, name)]
        _log.info("config.reloaded", needs_restart=[name for name in changed if name not in _RELOADED])
    if server.is_ready:
        notifier.ready()
