"""The command `farrier` as a separate process, as an operator sees it: log, output, HTTP, exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.abc
import httpx
import msgspec
from anyio.streams.text import TextReceiveStream

from farrier.model.loop.doors import DoorKind
from tests.support import again, logins, pg

Event: TypeAlias = dict[str, Any]

# Enough for a busy machine; a test that passes never waits so long.
PATIENCE = 45.0
# The settings of the servers that run beside a controller with an embedded database.
ANY_PORTS = {"FARRIER_HTTP_PORT": "0", "FARRIER_AGENTS_PORT": "0"}


class Farrier:
    """A running command. Its log and its output are read continuously."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._news = anyio.Event()
        self._open = 2
        self.printed = ""
        self.logged = ""
        self.events: list[Event] = []

    @property
    def names(self) -> list[str]:
        """The events logged so far, by name and in order."""
        return [event["event"] for event in self.events]

    async def until(self, name: str, *, error: str = "") -> Event:
        """Wait for the first event of this name whose error, if it has one, contains this text, and return it."""

        def found() -> Iterator[Event]:
            return (event for event in self.events if event["event"] == name and error in event.get("error", ""))

        await self._until(lambda: any(found()), f"{name} {error}".rstrip())
        return next(found())

    async def prints(self, text: str) -> None:
        """Wait until the process prints this text on standard output."""
        await self._until(lambda: text in self.printed, text)

    async def ended(self) -> int:
        """Wait for the end of the process, and return the exit code."""
        with anyio.fail_after(PATIENCE):
            code = await self._process.wait()
            while self._open:
                await self._news.wait()
        return code

    async def is_over(self) -> None:
        """Wait for the end of the process, without a time limit."""
        await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def get(self, path: str) -> httpx.Response:
        """The response of the process to a GET of this path."""
        url = (await self.until("http.listening"))["url"]
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            return await client.get(f"{url}{path}")

    async def read_log(self) -> None:
        """Read standard error until the process closes it."""
        assert self._process.stderr is not None
        rest = ""
        async for text in TextReceiveStream(self._process.stderr):
            self.logged += text
            *lines, rest = (rest + text).split("\n")
            self.events += [msgspec.json.decode(line) for line in lines if line.startswith("{")]
            self._tell()
        self._close()

    async def read_output(self) -> None:
        """Read standard output until the process closes it."""
        assert self._process.stdout is not None
        async for text in TextReceiveStream(self._process.stdout):
            self.printed += text
            self._tell()
        self._close()

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        with anyio.fail_after(PATIENCE):
            while not true():
                assert self._open, f"ended without {what!r}: {self.printed}{self.logged}"
                await self._news.wait()

    def _close(self) -> None:
        self._open -= 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


@asynccontextmanager
async def farrier(*arguments: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Farrier]:
    """`farrier` with these arguments; killed at the end if it still runs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FARRIER_")}
    process = await anyio.open_process(
        [sys.executable, "-m", "farrier", *arguments],
        env=inherited | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    command = Farrier(process)
    async with process, anyio.create_task_group() as reading:
        reading.start_soon(command.read_log)
        reading.start_soon(command.read_output)
        try:
            yield command
        except BaseException:
            sys.stdout.write(command.printed + command.logged)  # pytest shows it with the failure
            raise
        finally:
            if process.returncode is None:
                process.kill()
    assert "never retrieved" not in command.logged, "the exception of a task was never retrieved"


@asynccontextmanager
async def replica(dsn: str, **settings: str) -> AsyncIterator[Farrier]:
    """`farrier run` on a database; settings by the names of their variables, without the prefix."""
    environment = {f"FARRIER_{name.upper()}": value for name, value in settings.items()}
    async with farrier("run", "--dsn", dsn, "--metrics-port", "0", environment=environment) as running:
        yield running


@asynccontextmanager
async def serving(db: pg.Database, **settings: str) -> AsyncIterator[Farrier]:
    """`farrier serve` on a database, with a login of its own; it is ready. Settings as those of `replica`."""
    environment = {f"FARRIER_{name.upper()}": value for name, value in settings.items()}
    dsn = await logins.dsn_of(db, *logins.ROLES[DoorKind.PAGES])
    async with farrier("serve", "--dsn", dsn, "--port", "0", environment=environment) as running:
        await running.until("server.ready")
        yield running


async def until(true: Callable[[], Awaitable[bool]], *, patience: float = PATIENCE) -> None:
    """Call `true` until it returns a true value."""
    with anyio.fail_after(patience):
        while not await true():
            await again.later()
