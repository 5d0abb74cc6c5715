"""Contexts name databases, and a command uses the current context if nothing else names a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import pg

ELSEWHERE = "postgresql://someone:hunter2@127.0.0.1:1/x"


@pytest.fixture
async def _named(nowhere: Prompt, db: pg.Database, tmp_path: Path) -> None:
    """The test's database is `here`, and the current context is another one."""
    nowhere.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    await nowhere("context", "add", "elsewhere", "--dsn", ELSEWHERE)
    await nowhere("context", "add", "here", "--dsn", db.dsn)


@pytest.mark.usefixtures("_named")
async def test_a_command_uses_the_context_that_is_given_or_current(nowhere: Prompt) -> None:
    await nowhere("node", "add", "gpu-1", "--context", "here")
    await nowhere("node", "list", ends=ExitCode.DATABASE_UNREACHABLE)
    assert "is the current context" in (await nowhere("context", "use", "here")).out
    assert "gpu-1" in (await nowhere("node", "list")).out
    nowhere.environment["FARRIER_CONTEXT"] = "elsewhere"
    await nowhere("node", "list", ends=ExitCode.DATABASE_UNREACHABLE)


@pytest.mark.usefixtures("_named")
async def test_options_settings_and_environment_come_before_the_current_context(
    nowhere: Prompt, db: pg.Database, tmp_path: Path
) -> None:
    assert (await nowhere("node", "list", "--dsn", db.dsn)).err == "no node matches\n"
    file = tmp_path / "settings.toml"
    file.write_text(f'[database]\ndsn = "{db.dsn}"\n')
    assert (await nowhere("node", "list", "--config", file)).err == "no node matches\n"
    nowhere.environment["FARRIER_DATABASE_DSN"] = db.dsn
    assert (await nowhere("node", "list")).err == "no node matches\n"


@pytest.mark.usefixtures("_named")
async def test_contexts_are_shown_without_passwords(nowhere: Prompt) -> None:
    listed = await nowhere("context", "list")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:2]] == [["*", "elsewhere"]]
    json = await nowhere("context", "list", "--json")
    assert [(each["name"], each["current"]) for each in json.json] == [("elsewhere", True), ("here", False)]
    assert "127.0.0.1:1/x" in listed.out
    assert "hunter2" not in listed.out + json.out


@pytest.mark.usefixtures("_named")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("context", "use", "heer"), "did you mean 'here'?"),
        (("context", "remove", "there"), "no context is named 'there'"),
        (("context", "add", "x", "--api", "http://y", "--embedded", "z"), "set only one of dsn, embedded and api"),
        (("context", "add", "a b", "--dsn", "postgresql://y"), "a context cannot be named 'a b'"),
    ],
)
async def test_a_wrong_context_is_a_usage_error(nowhere: Prompt, words: tuple[str, ...], text: str) -> None:
    (line,) = (await nowhere(*words, ends=ExitCode.USAGE)).err.splitlines()
    assert text in line


@pytest.mark.usefixtures("_named")
async def test_a_removed_context_is_gone(nowhere: Prompt) -> None:
    await nowhere("context", "remove", "elsewhere")
    left = (await nowhere("context", "list", "--json")).json
    assert [(each["name"], each["current"]) for each in left] == [("here", False)]
