"""Programs of Prometheus as child processes, each on a free port of its own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc

from tests.support.process import PATIENCE

ANY_PORT = "--web.listen-address=127.0.0.1:0"
LISTENS = re.compile(r"msg=\"Listening on\" address=(127\.0\.0\.1:\d+)")


@asynccontextmanager
async def listening(command: Sequence[str | Path], *, ready: str = "") -> AsyncIterator[str]:
    """A program that runs until the end of the context, which kills it. Yields its URL, once it listens and has logged
    the text `ready`."""
    process = await anyio.open_process([*command, ANY_PORT])
    async with process, anyio.create_task_group() as reading:
        try:
            address = await _ready(process, ready)
            reading.start_soon(_read_on, process)
            yield f"http://{address}"
        finally:
            if process.returncode is None:
                process.kill()
            reading.cancel_scope.cancel()


async def _ready(process: anyio.abc.Process, ready: str) -> str:
    assert process.stderr is not None
    said = ""
    with anyio.fail_after(PATIENCE):
        while ready not in said or not (found := LISTENS.search(said)):
            said += (await process.stderr.receive()).decode()
    return found[1]


async def _read_on(process: anyio.abc.Process) -> None:
    assert process.stderr is not None
    async for _ in process.stderr:
        pass
