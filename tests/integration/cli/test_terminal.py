"""On a terminal of 80 columns each list is readable: no line is wider, and no name or time is cut."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from rich.cells import cell_len
from rich.text import Text

from farrier.cli import COMMANDS, load
from farrier.config import token_file
from farrier.config.token_file import ApiToken
from farrier.model.api_token import Scope
from tests.integration.cli.conftest import Prompt, force
from tests.integration.cli.test_node import OFFLINE
from tests.support import pg

COLUMNS = 80
NODE = "gpu-" + "0123456789" * 3
LONG = f"{NODE}-with-a-name-that-is-as-wide-as-the-terminal-and-then-some-more-characters"
"""Longer than a line."""
LISTS = (
    "node list",
    "node list -o wide",
    f"node show {NODE}",
    f"node why {NODE}",
    f"node history {NODE}",
    "resource list node",
    "resource list network_segment",
    "resource list maas_region",
    "segment list -o wide",
    "segment addresses tenant",
    "partition list",
    "kind list",
    "task list",
    "monitor list",
    "monitor refusals",
    "intent list",
    "controllers",
    "history list",
    "history list --kind node --limit 3",
    "site list",
    "token list",
    "sla list",
    "sla breaches",
)


async def on_terminal(*words: str, dsn: str) -> tuple[list[str], int]:
    """Run `farrier` on a pseudo-terminal of 80 columns. Returns its lines without colours, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    process = await anyio.open_process(
        [sys.executable, "-m", "farrier", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"FARRIER_DATABASE_DSN": dsn, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    text = await anyio.to_thread.run_sync(_read, ours)
    return plain(text), await process.wait()


def _read(terminal: int) -> str:
    """What the process printed until it closed its terminal."""
    found = b""
    try:
        while part := os.read(terminal, 65536):
            found += part
    except OSError:  # Linux reports the end of a pseudo-terminal as an error
        pass
    finally:
        os.close(terminal)
    return found.decode()


def test_the_table_has_every_command_that_prints_a_list() -> None:
    tried = {" ".join(words.split()[:2]) for words in LISTS}
    for name in COMMANDS:
        command = load(name)
        for each in command.registered_commands:
            if each.name == "list":
                assert f"{name} list" in tried or name == "context", name


@pytest.fixture
async def _fleet(farrier: Prompt, db: pg.Database) -> None:
    for name, *options in (
        (NODE, "--site", "amsterdam-1", "--model", "DGX H100 with eight GPUs", "--rack", "row-b-rack-17"),
        (LONG, "--site", "s" * 63, "--label", "a=b"),
        ("short",),
    ):
        await farrier("node", "add", name, *options)
    await farrier("segment", "add", "tenant", "--site", "amsterdam-1", "--prefixes", "10.0.0.0/24")
    await force(db, OFFLINE, NODE)
    await force(db, OFFLINE, LONG)


@pytest.fixture
def terminal(db: pg.Database, tmp_path: Path) -> Prompt:
    """Commands that take their output for a terminal of 80 columns."""
    sites = tmp_path / "sites"
    sites.mkdir()
    (sites / f"{'s' * 63}.toml").write_text("")
    tokens = tmp_path / "tokens.toml"
    token_file.add(tokens, ApiToken(name="c" * 63, sha256="0" * 64, scopes=tuple(Scope)))
    return Prompt(
        FARRIER_DATABASE_DSN=db.dsn,
        FARRIER_SITES_DIRECTORY=str(sites),
        FARRIER_HTTP_TOKENS_FILE=str(tokens),
        FORCE_COLOR="1",
        COLUMNS=str(COLUMNS),
    )


@pytest.mark.usefixtures("_fleet")
async def test_no_line_of_any_list_is_wider_than_the_terminal_and_no_name_is_cut(terminal: Prompt) -> None:
    for words in LISTS:
        lines = plain((await terminal(*words.split())).out)
        assert all(cell_len(line) <= COLUMNS for line in lines), (words, lines)
        whole = "".join(line.strip() for line in lines)
        for name in (NODE, LONG) if words.startswith(("node list", "resource list node")) else ():
            assert name in whole, (words, lines)
        assert "…" not in whole, (words, lines)


@pytest.mark.usefixtures("_fleet")
async def test_rows_are_stacked_where_the_columns_do_not_fit(terminal: Prompt) -> None:
    lines = plain((await terminal("node", "list", NODE, "-o", "wide")).out)
    assert lines[0].startswith("NODE") and "STATUS" in lines[0]
    assert lines[1].startswith(NODE)
    assert any(line.startswith("    ") and "model: DGX H100 with eight GPUs" in line for line in lines[2:])


@pytest.mark.usefixtures("_fleet")
async def test_the_width_is_that_of_the_terminal_of_the_process(db: pg.Database) -> None:
    lines, code = await on_terminal("node", "show", NODE, dsn=db.dsn)
    assert code == 0
    assert max(map(cell_len, lines)) <= COLUMNS
    assert lines[0].split()[:2] == ["node", NODE]


def plain(output: str) -> list[str]:
    """The lines of the output without colours."""
    return [Text.from_ansi(line).plain for line in output.splitlines()]
