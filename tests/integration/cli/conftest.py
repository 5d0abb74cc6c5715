"""The command line as a user runs it, against this test's database."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
import pytest
from typer.testing import CliRunner

from farrier.cli import app
from farrier.errors import ExitCode
from tests.support import pg


class Said(msgspec.Struct, frozen=True):
    """What a command printed on standard output and on standard error."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which has to be one JSON value."""
        return msgspec.json.decode(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output, which has to be one JSON value on each line."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


class Prompt:
    """Runs commands, with `environment` added to the environment variables."""

    def __init__(self, **environment: str) -> None:
        self.environment: dict[str, str | None] = {
            "FARRIER_CONFIG": None,
            "FARRIER_CONTEXT": None,
            "XDG_CONFIG_HOME": "/nonexistent",
            "FARRIER_DATABASE_EMBEDDED": None,
            "FARRIER_DATABASE_DSN": None,
            "FARRIER_DATABASE_DB_TIMEOUT": "0.2",  # so that commands without a server fail soon
            **environment,
        }

    async def __call__(self, *words: object, ends: ExitCode = ExitCode.OK) -> Said:
        """Run one command; the test fails unless it ends with this exit code."""
        run = partial(CliRunner().invoke, app, [str(word) for word in words], env=self.environment)
        result = await anyio.to_thread.run_sync(run)  # a command has an event loop of its own
        if result.exit_code != ends or not (result.exception is None or isinstance(result.exception, SystemExit)):
            pytest.fail(f"{words} ended with {result.exit_code} ({result.exception!r}):\n{result.output}")
        return Said(result.stdout, result.stderr)


@pytest.fixture
def nowhere() -> Prompt:
    """Runs commands without any setting of a database."""
    return Prompt()


@pytest.fixture
def farrier(db: pg.Database) -> Prompt:
    """Runs commands whose environment names this test's database."""
    return Prompt(FARRIER_DATABASE_DSN=db.dsn)


async def force(db: pg.Database, sql: str, *arguments: object) -> None:
    """Write a state that takes a node long to reach, with the guards of the database disabled."""
    async with db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(sql, *arguments)
