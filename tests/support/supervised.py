"""Commands as systemd runs a unit: with a socket to notify, a watchdog, and credentials in a directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc

from tests.support.process import PATIENCE, Farrier, farrier

RUN = ("run", "--metrics-port", "0")
SERVE = ("serve", "--port", "0")


class Systemd:
    """The supervisor's end of the socket, and the daemon that it supervises."""

    def __init__(self, daemon: Farrier, socket: anyio.abc.UNIXDatagramSocket) -> None:
        self.daemon = daemon
        self._socket = socket
        self.heard: list[str] = []

    async def hears(self, message: str) -> str:
        """Read until a datagram with this line comes; returns the whole datagram."""
        with anyio.fail_after(PATIENCE):
            while True:
                said = (await self._socket.receive())[0].decode()
                self.heard.append(said)
                if message in said.split("\n"):
                    return said

    @property
    def shown(self) -> str:
        """The line that `systemctl status` shows."""
        lines = [line for said in self.heard for line in said.split("\n") if line.startswith("STATUS=")]
        return lines[-1].removeprefix("STATUS=")

    async def shows(self, beginning: str) -> None:
        """Return once `systemctl status` shows a line that begins with this text."""
        with anyio.fail_after(PATIENCE):
            while not self.shown.startswith(beginning):
                self.heard.append((await self._socket.receive())[0].decode())

    async def hears_within(self, message: str, seconds: float) -> bool:
        """Whether such a datagram has arrived, or arrives within `seconds`."""
        with anyio.move_on_after(seconds) as patience:
            await self.hears(message)
        return not patience.cancelled_caught

    async def reads_what_is_there(self) -> list[str]:
        """All datagrams that have arrived so far."""
        while await self.hears_within("never said", 0.05):
            pass
        return self.heard


@asynccontextmanager
async def supervised(
    directory: Path, *arguments: str, command: Sequence[str] = RUN, watchdog: str = "0.3", **more: str
) -> AsyncIterator[Systemd]:
    """Run a command as a systemd unit does; `watchdog` in seconds."""
    path = directory / "notify"
    environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": f"{float(watchdog) * 1e6:.0f}", **more}
    async with (
        await anyio.create_unix_datagram_socket(local_path=path) as socket,
        farrier(*command, *arguments, environment=environment) as daemon,
    ):
        yield Systemd(daemon, socket)
