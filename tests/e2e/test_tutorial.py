"""The tutorial as it is written: the test makes its files, types its lines, and a daemon runs the kind that it defines.

Only the directory of the embedded database and the port differ: they are the test's own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

from farrier.io.connections.embedded import EmbeddedServer, wheel_binaries
from tests.support.process import ANY_PORTS, Farrier, farrier, until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "integrate" / "own-kind.md").read_text(encoding="utf-8")
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
SHELL = dict(re.findall(r"<!-- sh: (\w+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
EXPORT = re.compile(r"^export .*$", re.MULTILINE)
HTTP = "localhost:9464"

# "Some sixty lines": without blank ones, imports and the docstring.
MOST_LINES = 70


class Terminal:
    """A directory with the tutorial's files, in which its blocks are typed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, text in FILES:
            with (directory / name).open("a", encoding="utf-8") as file:
                file.write(text)
        path = f"{Path(sys.executable).parent}:{wheel_binaries()}:{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FARRIER_")}
        (variables,) = EXPORT.findall(SHELL["install"])
        self.variables = dict(
            pair.split("=") for pair in variables.removeprefix("export ").replace("$PWD", str(directory)).split()
        )
        self.variables["FARRIER_DATABASE_EMBEDDED"] = str(directory / "database")
        self._environment = inherited | self.variables | {"PATH": path}

    async def types(self, block: str, *, url: str = "") -> str:
        """Run the lines of a block, and return the output; an error in any of them ends the test."""
        script = f"set -euo pipefail\n{SHELL[block].replace(HTTP, url.removeprefix('http://') or HTTP)}"
        done = await anyio.run_process(
            ["bash", "-c", script], env=self._environment, cwd=self.directory, stderr=subprocess.STDOUT, check=False
        )
        printed = done.stdout.decode()
        assert done.returncode == 0, printed
        return printed


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal outside of pytest's directory, which the account of the PostgreSQL server of root may not enter."""
    with tempfile.TemporaryDirectory(prefix="farrier-tutorial-") as name:
        directory = Path(name).resolve()
        yield Terminal(directory)
        EmbeddedServer(directory / "database").stop()


@pytest.fixture
async def installed(terminal: Terminal) -> str:
    return await terminal.types("install")


@pytest.fixture
async def daemon(terminal: Terminal, installed: str) -> AsyncIterator[Farrier]:
    assert installed
    assert SHELL["run"] == "farrier run\n"
    async with farrier("run", "--metrics-port", "0", environment=terminal.variables | ANY_PORTS) as running:
        await running.until("daemon.ready")
        yield running
        running.send(signal.SIGTERM)
        assert await running.ended() == 0


@pytest.mark.timeout(180)
async def test_the_tutorial_works_as_it_is_written(terminal: Terminal, installed: str, daemon: Farrier) -> None:
    assert "kind volume: installed, table storage.volumes" in installed
    assert re.search(r"^volume +0 .*create, delete", installed, re.MULTILINE)
    url = (await daemon.until("http.listening"))["url"]
    dsn = (
        await anyio.run_process(
            [sys.executable, "-m", "farrier", "db", "url"], env=dict(os.environ) | terminal.variables
        )
    ).stdout
    conn = await asyncpg.connect(dsn.decode().strip())

    async def state_is(name: str, state: str) -> bool:
        return bool(await conn.fetchval("SELECT state = $2 FROM storage.volumes WHERE name = $1", name, state))

    assert re.search(r"1 \| accepted", await terminal.types("create"))
    await until(lambda: state_is("scratch-1", "ready"))
    assert (terminal.directory / "images" / "scratch-1.img").stat().st_size == 64 << 20

    await until(lambda: exposes(daemon, 'farrier_resources{kind="volume",state="ready",substate=""} 1.0'))
    looked = await terminal.types("look", url=url)
    for told in (
        "scratch-1.img",
        "scratch-1  ready",
        "nothing: it is in its target state",
        "creating  ready  ",
        'farrier_resources{kind="volume",state="ready",substate=""} 1.0',
        'farrier_kind_volume_mib_total{what="made"} 64.0',
        'farrier_kind_volume_mib_total{what="removed"} 0.0',
    ):
        assert told in looked, looked
    assert re.search(r"volume\.deleting +10m +configured", looked)
    assert re.search(r"volume\.creating +2m\b", looked)

    await terminal.types("delete")
    await until(lambda: state_is("scratch-1", "gone"))
    assert not list((terminal.directory / "images").iterdir())
    await until(lambda: exposes(daemon, 'farrier_kind_volume_mib_total{what="removed"} 64.0'))
    moves = await conn.fetch(
        "SELECT from_value, to_value, cause FROM farrier.history"
        " WHERE kind = 'volume' AND from_value IS NOT NULL ORDER BY version"
    )
    assert [tuple(move) for move in moves] == [
        ("creating", "ready", "settle"),
        ("ready", "deleting", "delete"),
        ("deleting", "gone", "settle"),
    ]

    await terminal.types("trouble")
    reason = f"{terminal.directory}/images: No such file or directory"
    await until(
        lambda: conn.fetchval("SELECT EXISTS (SELECT FROM farrier.outcomes WHERE outcome ->> 'reason' = $1)", reason)
    )
    assert reason in await terminal.types("why")
    await ends_though_it_was_never_made(conn, "scratch-3")
    (terminal.directory / "elsewhere").rename(terminal.directory / "images")
    await conn.execute("SELECT farrier.enqueue('volume', id) FROM storage.volumes WHERE name = 'scratch-2'")
    await until(lambda: state_is("scratch-2", "ready"))
    await conn.close()


async def exposes(daemon: Farrier, line: str) -> bool:
    return line in (await daemon.get("/metrics")).text


async def ends_though_it_was_never_made(conn: Any, name: str) -> None:
    """Delete a volume that is in `creating` because the directory of images does not exist."""
    asks = "SELECT farrier.resource_intent('volume', $1, $2, $3::jsonb)"
    await conn.fetchval(asks, name, "create", '{"size_mib": 8}')
    delete = await conn.fetchval(asks, name, "delete", "{}")
    await until(lambda: conn.fetchval("SELECT state = 'gone' FROM storage.volumes WHERE name = $1", name))
    assert await conn.fetchval("SELECT status FROM farrier.resource_intents WHERE id = $1", delete) == "accepted"


def test_the_kind_has_as_many_lines_as_the_tutorial_says(terminal: Terminal) -> None:
    lines = (terminal.directory / "volumes.py").read_text(encoding="utf-8").splitlines()[1:]
    code = [line for line in lines if line.strip() and not line.startswith(("from ", "import "))]
    assert len(code) <= MOST_LINES


async def test_the_tests_of_the_kind_pass(terminal: Terminal) -> None:
    assert "2 passed" in await terminal.types("test")


@pytest.mark.full
@pytest.mark.timeout(120)
def test_the_kind_is_fully_typed(terminal: Terminal) -> None:
    """Checked against the types that farrier ships, in strict mode and without the settings of this repository."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache"]
    checked = subprocess.run(
        [*mypy, "volumes.py", "test_volumes.py"], cwd=terminal.directory, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_every_file_and_block_of_the_page_is_used(terminal: Terminal) -> None:
    assert {name for name, _ in FILES} == {"volumes.py", "test_volumes.py", "farrier.toml"}
    assert set(SHELL) == {"test", "install", "run", "create", "look", "delete", "trouble", "why"}
    assert msgspec.toml.decode((terminal.directory / "farrier.toml").read_text())["controller"]["kinds"]
