"""Standard output that cannot be written: a full disk is reported in one line, a closed pipe is not reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.support import pg

FULL = Path("/dev/full")


@pytest.fixture
def full() -> Iterator[int]:
    """The descriptor of a file on which every write fails with ENOSPC."""
    if not FULL.exists():
        pytest.skip("this system has no /dev/full")
    with FULL.open("wb") as file:
        yield file.fileno()


@pytest.fixture
def deserted() -> Iterator[int]:
    """The descriptor of a pipe whose reader has closed it."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


async def process(*words: str, into: int, errors: int = subprocess.PIPE) -> tuple[int, str]:
    """The exit code of `farrier`, and its standard error."""
    command = [sys.executable, "-m", "farrier", *words]
    done = await anyio.run_process(command, check=False, stdout=into, stderr=errors)
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("words", ["--version", "--help", "config", "config --json"])
async def test_a_full_disk_is_reported_in_one_line_without_a_traceback(full: int, words: str) -> None:
    code, said = await process(*words.split(), into=full)
    assert code == 1
    assert said.splitlines() == [
        "farrier: cannot write to standard output: No space left on device; the output is incomplete"
    ]


@pytest.mark.full
async def test_a_full_disk_is_not_reported_as_an_unreachable_database(full: int, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
    for command in ("node list", "node list --json", "history list", "node show gpu-1"):
        code, said = await process(*command.split(), "--dsn", db.dsn, into=full)
        assert (code, said.count("\n")) == (1, 1), said
        assert "cannot write to standard output" in said


async def test_a_full_disk_behind_both_streams_ends_with_the_same_code(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with it, no output would be left to flush at the end
    assert await process("config", into=full, errors=full) == (1, "")


@pytest.mark.parametrize("words", ["--version", "--help", "config --json"])
async def test_a_closed_pipe_ends_the_command_without_a_message(deserted: int, words: str) -> None:
    assert await process(*words.split(), into=deserted) == (1, "")
