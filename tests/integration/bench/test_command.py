"""`python -m bench` as a user or a script runs it, with so few nodes that it takes a moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from farrier.errors import ExitCode
from tests.architecture.sources import ROOT
from tests.support import pg

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full


@pytest.fixture
async def empty(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A database without farrier's schema."""
    async with pg_server.copy(pg.EMPTY) as database:
        yield database


async def bench(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return await anyio.run_process([sys.executable, "-m", "bench", *arguments], check=False, cwd=ROOT)


def report_of(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The report of a run with --json."""
    assert done.stdout, done.stderr.decode()  # an error also ends with 1
    return json.loads(done.stdout)


async def test_a_met_target_ends_with_0_and_json_alone_on_standard_output(empty: pg.Database) -> None:
    done = await bench("--dsn", empty.dsn, "--only", "rss", "--nodes", "10", "--runs", "2", "--json")
    assert done.returncode == ExitCode.OK, done.stderr.decode()
    report = report_of(done)
    judged, reported = report["figures"]
    assert (judged["name"], judged["nodes"], judged["met"]) == ("rss", 10, True)
    assert len(judged["runs"]) == 2 and 0 < judged["value"] <= judged["target"]
    assert reported["target"] is None and reported["value"] >= judged["value"]
    assert b"rss: run 2 of 2" in done.stderr
    yardstick = report["yardstick"]
    assert set(yardstick) == {"before", "after", "where_the_targets_were_set"}
    for speed in yardstick.values():
        assert set(speed) == {"transitions_per_second", "reaction_p50_ms"} and min(speed.values()) > 0


async def test_a_missed_target_ends_with_1_and_still_shows_the_figure(empty: pg.Database) -> None:
    """With a single node, a controller cannot run thousands of nodes a second."""
    done = await bench("--dsn", empty.dsn, "--only", "start", "--nodes", "1", "--runs", "1", "--json")
    assert done.returncode == ExitCode.FAILED, done.stderr.decode()
    figures = {figure["name"]: figure for figure in report_of(done)["figures"]}
    missed = figures["all"]
    assert not missed["met"] and 0 < missed["value"] < missed["target"]


async def test_the_table_has_the_speed_of_the_machine_and_no_schema_is_left(empty: pg.Database) -> None:
    # Ten nodes of a site: more than the brake lets leave service by default.
    done = await bench("--dsn", empty.dsn, "--only", "transitions", "--nodes", "80", "--runs", "1")
    for when in ("before", "after"):
        assert f"this machine, {when}: raw SQL" in done.stdout.decode(), done.stderr.decode()
    async with empty.connect() as conn:
        assert await conn.fetchval("SELECT to_regnamespace('farrier')") is None
        assert await conn.fetchval("SELECT to_regnamespace('yardstick')") is None


async def test_a_database_that_is_in_use_is_not_changed(db: pg.Database) -> None:
    done = await bench("--dsn", db.dsn, "--only", "life", "--nodes", "1", "--runs", "1")
    assert done.returncode == ExitCode.USAGE
    assert b"already has a schema farrier" in done.stderr
    assert b"yardstick:" not in done.stderr, "no benchmark runs where another farrier may be at work"
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT count(*) FROM farrier.schema_steps") > 0


async def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    done = await bench("--only", "sweeps")
    assert done.returncode == ExitCode.USAGE
    assert b"no benchmark is named 'sweeps'" in done.stderr
    assert b"transitions" in done.stderr
