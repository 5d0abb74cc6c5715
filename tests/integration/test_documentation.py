"""The promises of the pages, tested with a running farrier: the README, the page on SQL, refusals, the metrics.

Each SQL block is marked `<!-- sql: NAME -->`. One psql session runs those of a page, because `\\gset` keeps the result
of a statement for the next ones; a daemon runs the nodes. Output of commands is marked `<!-- said: NAME -->`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import httpx
import pytest
from anyio.streams.text import TextReceiveStream

from farrier.config import Config, DatabaseConfig, MetricsConfig
from farrier.daemon import Daemon, Serving
from farrier.io.connections.embedded import wheel_binaries
from tests.support import pg

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
METRICS = ROOT / "docs" / "reference" / "metrics.md"
SQL = ROOT / "docs" / "integrate" / "sql.md"
BLOCK = re.compile(r"<!-- sql: (\w+) -->\n```sql\n(.*?)```", re.DOTALL)
BLOCKS = dict(BLOCK.findall(README.read_text(encoding="utf-8")))
SAID = dict(re.findall(r"<!-- said: (\w+) -->\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))


class Psql:
    """One interactive session of psql."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._input = process.stdin
        self._output = TextReceiveStream(process.stdout)

    async def type(self, text: str) -> str:
        """Run the statements and return the output. An error ends psql, and the test."""
        await self._input.send(f"{text}\n\\echo :done\n".encode())
        heard = ""
        while ":done\n" not in heard:
            try:
                heard += await self._output.receive()
            except anyio.EndOfStream:
                raise AssertionError(f"psql refused:\n{text}\nand said:\n{heard}") from None
        return heard.removesuffix(":done\n").strip()


@asynccontextmanager
async def psql(dsn: str) -> AsyncIterator[Psql]:
    """The real psql, as a reader of the page runs it."""
    command = [str(wheel_binaries() / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", dsn]
    async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
        yield Psql(process)
        assert process.stdin is not None
        await process.stdin.aclose()


@asynccontextmanager
async def daemon(dsn: str) -> AsyncIterator[Serving]:
    """`farrier run` in this process."""
    stop = anyio.Event()
    config = Config(database=DatabaseConfig(dsn=dsn), metrics=MetricsConfig(port=0))
    async with anyio.create_task_group() as tasks:
        yield await tasks.start(Daemon(config, stop).run)
        stop.set()


async def until_status(db: pg.Database, status: str) -> None:
    await db.until(f"SELECT status = '{status}' FROM farrier.nodes WHERE name = 'gpu-017'")


async def test_the_statements_of_the_page_on_sql_work_with_the_role_that_it_gives(db: pg.Database) -> None:
    login, *statements = (text for _, text in BLOCK.findall(SQL.read_text(encoding="utf-8")))
    async with daemon(db.dsn), psql(db.dsn) as prompt:
        await prompt.type(f"BEGIN;\n{login}\nROLLBACK;")  # a role belongs to the whole server, which tests share
        await prompt.type("SET ROLE farrier_intents;")
        for statement in statements:
            await prompt.type(statement)
        await db.until("SELECT status <> 'pending' FROM farrier.intents")


async def test_an_invalid_intent_is_refused_by_its_insert(db: pg.Database) -> None:
    """Also without a daemon."""
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-017')")
        with pytest.raises(pg.PostgresError) as refused:
            await conn.execute("INSERT INTO farrier.intents (node, action) VALUES ('gpu-017', 'explode')")
    assert refused.value.sqlstate == "FR400"


async def test_a_node_that_waits_for_its_agent_says_what_the_readme_shows(db: pg.Database) -> None:
    """The output equals the README's except for numbers, which are times and the source line of the decision."""
    async with daemon(db.dsn), psql(db.dsn) as prompt:
        await prompt.type(BLOCKS["ask"])
        waits = "last_outcome ->> 'source' LIKE '%/wait_for_agent_enrollment.py:%'"
        await db.until(f"SELECT {waits} FROM farrier.node_lifecycle")
        command = [sys.executable, "-m", "farrier", "node", "why", "gpu-017", "--dsn", db.dsn]
        said = (await anyio.run_process(command)).stdout.decode()
    assert set(without_numbers(SAID["why"])) <= set(without_numbers(said)), said


def without_numbers(text: str) -> list[str]:
    return [re.sub(r"\d+", "0", line).rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("mode", ["deploy"])
async def test_a_mode_that_needs_maas_is_rejected_without_a_site_that_has_it_and_nothing_begins(
    db: pg.Database, mode: str
) -> None:
    async with daemon(db.dsn), db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-017')")
        await conn.execute("SELECT farrier.intent('gpu-017', 'onboard', jsonb_build_object('mode', $1::text))", mode)
        await db.until("SELECT status <> 'pending' FROM farrier.intents")
        answer = await conn.fetchrow("SELECT status, reason FROM farrier.intents")
        assert answer is not None and answer["status"] == "rejected"
        assert "has no MAAS configured (sites.directory)" in answer["reason"]
        assert await conn.fetchval("SELECT mode IS NULL AND status = 'pending' FROM farrier.node_onboardings")


async def test_the_reference_lists_the_metrics_that_are_served_and_no_other(db: pg.Database) -> None:
    async with daemon(db.dsn) as serving, httpx.AsyncClient(base_url=serving.url, trust_env=False) as client:
        exposition = (await client.get("/metrics", timeout=pg.PATIENCE.total_seconds())).text
    served = set(re.findall(r"^# TYPE (\w+) ", exposition, re.MULTILINE))
    listed = set(re.findall(r"^\| `(farrier_\w+)` \|", METRICS.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == served
