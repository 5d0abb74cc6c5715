"""The servers beside a controller with an embedded database: child processes, each with a login of its own.

The controller binds their sockets, so that a server which is started again keeps its address. A child gets its settings
on standard input, and a new line there replaces them. It ends when its standard input closes, which also happens when
the controller is killed (`child`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.abc
import msgspec
import structlog

from farrier.config import Config
from farrier.model.loop.doors import DoorKind
from farrier.web.server.serving import bind, url_of

_log = structlog.stdlib.get_logger(__name__)

LOGINS: Mapping[DoorKind, str] = {DoorKind.PAGES: "farrier_serve", DoorKind.AGENTS: "farrier_serve_agents"}
"""The login of each server in an embedded database."""

# Pause before a server that ended is started again, in seconds. A server that cannot start must not occupy the machine.
_PAUSE = 1.0
# How long a server may take to end, in seconds. Longer than the time that its requests get.
_ENDS_WITHIN = 8.0


class Servers:
    """The servers of one controller. Use as a context manager, which binds and closes their sockets."""

    def __init__(self, config: Config, *, log_to: int | None = None) -> None:
        """`log_to` is the file descriptor of their log. Default: standard error."""
        self._config = config
        self._log_to = log_to
        self._listeners: dict[DoorKind, socket.socket] = {}
        self._running: dict[DoorKind, anyio.abc.Process] = {}
        self._dsn = ""

    def __enter__(self) -> Self:
        http, agents = self._config.http, self._config.agents
        try:
            self._listeners[DoorKind.PAGES] = bind(http.host, http.port, section="http")
            self._listeners[DoorKind.AGENTS] = bind(agents.host, agents.port, section="agents")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()

    @property
    def urls(self) -> Mapping[DoorKind, str]:
        """The base URL of each server."""
        tls = {DoorKind.PAGES: self._config.http.tls_cert, DoorKind.AGENTS: self._config.agents.tls_cert}
        return {kind: url_of(at, "https" if tls[kind] else "http") for kind, at in self._listeners.items()}

    async def run(self, dsn: str) -> None:
        """Keep the servers running until cancelled. `dsn` is the DSN of the embedded database."""
        self._dsn = dsn
        async with anyio.create_task_group() as tasks:
            for kind, listener in self._listeners.items():
                tasks.start_soon(self._keep, kind, listener)

    async def reload(self, config: Config) -> None:
        """Let the running servers read their files again, and log as these settings say."""
        self._config = msgspec.structs.replace(self._config, log=config.log)
        for kind, process in self._running.items():
            await self._tell(kind, process)

    async def _keep(self, kind: DoorKind, listener: socket.socket) -> None:
        while True:
            process = await self._started(kind, listener)
            try:
                self._running[kind] = process
                await self._tell(kind, process)
                code = await process.wait()
            finally:
                del self._running[kind]
                with anyio.CancelScope(shield=True):
                    await _ended(process)
            _log.error("server.ended", server=kind, code=code, again_in=_PAUSE)
            await anyio.sleep(_PAUSE)

    async def _started(self, kind: DoorKind, listener: socket.socket) -> anyio.abc.Process:
        return await anyio.open_process(
            [sys.executable, "-m", "farrier.child", kind, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log_to,
            # The socket of systemd expects only the controller.
            env={name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"},
            pass_fds=(listener.fileno(),),
            # Ctrl-C reaches every process of a terminal. The controller ends its servers itself, after its drain.
            start_new_session=True,
        )

    async def _tell(self, kind: DoorKind, process: anyio.abc.Process) -> None:
        database = msgspec.structs.replace(self._config.database, dsn=as_login(self._dsn, LOGINS[kind]), embedded="")
        own = msgspec.structs.replace(self._config, database=database)
        assert process.stdin is not None, "it is a pipe"
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the process has just ended
            await process.stdin.send(msgspec.json.encode(own) + b"\n")


async def _ended(process: anyio.abc.Process) -> None:
    """End a server by closing its standard input; if it does not end, kill it."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(process.aclose)
        assert process.stdin is not None, "it is a pipe"
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        with anyio.move_on_after(_ENDS_WITHIN):
            await process.wait()
        if process.returncode is None:
            process.kill()


def as_login(dsn: str, login: str) -> str:
    """Return the DSN of an embedded server for another login."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
