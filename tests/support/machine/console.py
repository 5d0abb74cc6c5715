"""The serial console of the machine, as a socket to which QEMU connects at each power-on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc

# A boot takes half a minute alone, and several minutes on a busy computer. A test that passes never waits so long.
PATIENCE_SECONDS = 600.0


class Console:
    """Everything that the machine printed, over all its boots."""

    def __init__(self, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        self._listener = listener
        self._news = anyio.Event()
        self._open = 0
        self.printed = ""

    async def prints(self, text: str) -> None:
        """Wait until the machine prints this text, or return at once if it already did."""
        await self._until(lambda: text in self.printed)

    async def ends(self) -> None:
        """Wait until no machine has power."""
        await self._until(lambda: not self._open)

    async def read(self) -> None:
        """Read all consoles until cancelled."""
        await self._listener.serve(self._read)

    async def _read(self, stream: anyio.abc.SocketStream) -> None:
        self._open += 1
        async with stream:
            async for received in stream:
                self.printed += received.decode(errors="replace").replace("\r", "")
                self._tell()
        self._open -= 1
        self._tell()

    async def _until(self, true: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while not true():
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


@asynccontextmanager
async def console(path: Path) -> AsyncIterator[Console]:
    """The console at this path; a failed test prints it."""
    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as reading:
        opened = Console(listener)
        reading.start_soon(opened.read)
        try:
            yield opened
        except BaseException:
            print(opened.printed)  # noqa: T201 - pytest shows it with the failure
            raise
        finally:
            reading.cancel_scope.cancel()
