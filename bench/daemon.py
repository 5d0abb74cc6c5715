"""Runs a real `farrier run` as a separate process, beside the client that measures it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import msgspec
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from farrier.errors import DatabaseUnreachable

# A daemon starts within a second. A daemon that is not ready after this time has failed.
_PATIENCE_SECONDS = 60
_LONGEST_LINE = 1 << 16
# This is enough time to load a million nodes.
_LONG_SECONDS = 900
_LOOK_SECONDS = 0.2
_NODE_RUNS = 'farrier_handler_runs_total{kind="node"'


class Running(msgspec.Struct, frozen=True):
    """A daemon that is ready."""

    pid: int
    url: str
    _ended: Callable[[], Awaitable[int]]

    async def node_runs(self) -> int:
        """Return how many runs of nodes the daemon has counted."""
        async with httpx.AsyncClient(trust_env=False) as client:
            lines = (await client.get(f"{self.url}/metrics", timeout=_PATIENCE_SECONDS)).text.splitlines()
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(_NODE_RUNS))

    async def until_runs(self, wanted: int) -> None:
        """Return once the daemon has counted this many runs."""
        with anyio.fail_after(_LONG_SECONDS):
            while await self.node_runs() < wanted:  # noqa: ASYNC110 - another process
                await anyio.sleep(_LOOK_SECONDS)

    async def end(self, how: signal.Signals) -> None:
        """Send the daemon a signal, and return once the daemon has ended."""
        os.kill(self.pid, how)
        await self._ended()

    def memory(self, field: str) -> float:
        """Return a value in MB: `VmRSS` (resident memory now) or `VmHWM` (its maximum so far)."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
        return int(kilobytes) * 1024 / 1e6

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads of the daemon since it began."""
        # The second field is the name of the program in brackets, which may contain spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running(dsn: str, settings: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """Run a daemon on the database of `dsn`, with `settings` in its environment. At the end of the block, the daemon is
    drained."""
    async with process(("farrier", "run", "--metrics-port", "0"), dsn, settings or {}) as started:
        yield started


@asynccontextmanager
async def process(command: Sequence[str], dsn: str, settings: Mapping[str, str]) -> AsyncIterator[Running]:
    """Run a module with its arguments as a process of farrier on the database of `dsn`. At the end of the block, the
    process is stopped."""
    environment = {**os.environ, "FARRIER_DATABASE_DSN": dsn, **settings}
    line = [sys.executable, "-m", *command]
    # A session of its own, as systemd gives each service a group of its own: Linux shares processors out among them.
    opened = anyio.open_process(line, stdin=None, stdout=None, env=environment, start_new_session=True)
    async with await opened as process:
        assert process.stderr is not None, "it is a pipe by default"
        try:
            with anyio.fail_after(_PATIENCE_SECONDS):
                log, url = await _until_ready(process.stderr)
            async with anyio.create_task_group() as beside:
                beside.start_soon(_read_on, log)
                yield Running(process.pid, url, process.wait)
                beside.cancel_scope.cancel()
        finally:
            with suppress(ProcessLookupError):  # the daemon has ended, and the waiting code reports it
                process.terminate()


async def _until_ready(stream: ByteReceiveStream) -> tuple[BufferedByteReceiveStream, str]:
    """Read the log until the process is ready. Returns the rest of the log and the URL. If the process ends before,
    raises DatabaseUnreachable with the last line."""
    log = BufferedByteReceiveStream(stream)
    line, url = b"", ""
    try:
        while b'"daemon.ready"' not in line and b'"server.ready"' not in line:
            line = await log.receive_until(b"\n", _LONGEST_LINE)
            if b'"http.listening"' in line:
                url = msgspec.json.decode(line)["url"]
    except (anyio.EndOfStream, anyio.IncompleteRead):
        raise DatabaseUnreachable("the daemon", f"it ended: {line.decode(errors='replace')}") from None
    return log, url


async def _read_on(log: BufferedByteReceiveStream) -> None:
    """Read the pipe until the daemon ends, as a log collector would, so that the pipe does not fill up."""
    with suppress(anyio.EndOfStream):
        while True:
            await log.receive()
