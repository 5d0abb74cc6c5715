"""The command line as a process: what it imports at its start, and what it writes into a pipe."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

from farrier.cli import COMMANDS
from tests.integration.cli.conftest import Prompt
from tests.support import pg

# Modules that take time to import, and that `--help` does not need.
HEAVY = {"asyncpg", "anyio", "structlog", "aiohttp", "httpx", "prometheus_client", "starlette", "farrier.config"}


async def process(*words: str, dsn: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run `farrier` as a process of its own."""
    command = [sys.executable, "-m", "farrier", *words, *(["--dsn", dsn] if dsn else [])]
    done = await anyio.run_process(command, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


async def test_help_is_printed_without_importing_slow_modules() -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from farrier.cli import app
said = CliRunner().invoke(app, ["--help"]).stdout
assert all(name in said for name in {list(COMMANDS)!r}), said
print(*sorted({HEAVY!r} & set(sys.modules)))
"""
    done = await anyio.run_process([sys.executable, "-c", code])
    assert done.stdout.decode().split() == []


async def test_a_command_imports_the_client_of_the_api_only_to_use_the_api() -> None:
    code = """
import sys
from typer.testing import CliRunner
from farrier.cli import app
assert CliRunner().invoke(app, ["node", "list", "--help"]).exit_code == 0
print("httpx" in sys.modules)
"""
    done = await anyio.run_process([sys.executable, "-c", code])
    assert done.stdout.decode().split() == ["False"]


@pytest.mark.parametrize(
    ("words", "code"), [(("--version",), 0), ((), 2), (("nodes",), 2), (("node", "list", "--nonsense"), 2)]
)
async def test_exit_codes_of_the_process(words: tuple[str, ...], code: int) -> None:
    assert (await process(*words)).returncode == code


async def test_no_value_is_cut_in_a_pipe(db: pg.Database, farrier: Prompt) -> None:
    name, site = "n" * 200, "s" * 63
    await farrier("node", "add", name, "--site", site)
    heading, line = (await process("node", "list", dsn=db.dsn)).stdout.splitlines()
    assert (heading.split()[0], line.split()[0]) == ("NODE", name)
    assert site in line
