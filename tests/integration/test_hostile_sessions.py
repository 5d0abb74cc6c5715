"""SQL functions do not depend on the settings of a session, which its login or its database may have set."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from farrier.io.connections import pool
from farrier.io.connections.pool import Connection
from tests.integration.node.test_granted_calls import CALLS, call, prepared
from tests.support import hostile, pg
from tests.support.hostile import HOSTILE
from tests.support.partitions import GUIDS

SHADOWS = """
    CREATE SCHEMA shadows;
    CREATE TABLE shadows.nodes (id text); CREATE TABLE shadows.intents (id text);
    CREATE FUNCTION shadows.now() RETURNS timestamptz LANGUAGE sql RETURN timestamptz 'epoch';
    GRANT USAGE ON SCHEMA shadows TO PUBLIC;
"""
# Functions that no role may call alone, with values on which the text of a pattern, a time or an interval matters.
INNER = (
    ("is_a_time", "'asked_at'"),
    ("is_a_time", "'treat'"),
    ("is_of_the_future", "'next_try_at'"),
    ("is_of_the_future", "'nextstep'"),
    ("mended", "'{\"asked_at\": \"2031-02-03T04:05:06Z\"}', '2030-01-01T00:00:00Z', '1 day', ''"),
    ("mended", "'{\"asked_at\": \"03/02/2031\"}', '2030-01-01T00:00:00Z', '1 day', ''"),
    ("bmc_span_of", "'https://[::ffff:10.0.0.1]/redfish/v1/Systems/1'"),
    ("prefix_fault", "'10.0.0.0/24'"),
    ("prefix_fault", "'10x0x0x0/24'"),
    ("ib_guid", f"'{GUIDS[0]}'"),
    ("param_fault", r"""$${"type": "string", "max": 9, "pattern": "\\S"}$$, '"  "'"""),
    ("identity_keys", "'SN-1', '38b7a8c4-0001-11ec-9621-0242ac130002', 'Dell Inc.', '[]'"),
    ("bmc_endpoint_of", "'https://BMC-1.example/redfish'"),
    ("digest", "'secret'"),
    ("check_ttl", "'3 days 04:05:06'"),
    ("refuse_shared", "'https://10.0.0.9', '{}'"),
    ("ib_partition_detail", "1"),
    ("derive_identities", ""),
    ("move_here", ""),
)
# Tests whose databases run the other functions: registration, onboarding, tasks, intents, restores, networks,
# partitions, brakes, questions, kinds and the mending of times. Tests of one directory stand together, because pytest
# otherwise forgets the fixtures of the directory.
SCENARIOS = (
    *(f"controller/test_{name}.py" for name in ("locked", "lost_replies")),
    "ib_partition/test_members.py",
    *(f"kinds/test_{name}" for name in ("made_kinds.py::test_the_template_has_no_rows", "removal.py")),
    *(f"network_segment/test_{name}.py" for name in ("addresses", "life")),
    *(f"node/test_{name}.py" for name in ("beats", "brake", "brake_shown", "clock_set_back", "decommission_in_maas")),
    *(f"node/test_{name}.py" for name in ("deleted", "details", "dry_runs", "granted_calls", "guards", "intents")),
    *(f"node/test_{name}.py" for name in ("monitors_decide", "networks", "one_machine", "owning", "task_claimants")),
    *(f"test_{name}.py" for name in ("mended_json", "restored", "restores", "retention", "sites")),
)
_BODIES = """
    SELECT p.proname::text AS name, p.prosrc AS body FROM pg_proc p
     WHERE p.pronamespace = 'farrier'::regnamespace AND p.prosrc <> '' ORDER BY 1
"""
# What any login may set of the form of texts, of the rules of former releases, and of PL/pgSQL.
_SETTINGS = """
    SELECT lower(s.name) AS name FROM pg_settings s
     WHERE s.context = 'user' AND (s.category ~ 'Locale and Formatting|Compatibility' OR s.name LIKE 'plpgsql.%')
"""
# No function depends on these: none formats by a language, searches texts, reads the abbreviation of a zone, asserts,
# or needs the rows of a scan without ORDER BY in an order.
NEUTRAL = {
    *("client_encoding", "default_text_search_config", "icu_validation_level", "lc_monetary", "lc_numeric", "lc_time"),
    *("plpgsql.check_asserts", "plpgsql.extra_warnings", "plpgsql.print_strict_params"),
    *("synchronize_seqscans", "timezone_abbreviations"),
}
# Without the constructors of range types, which the server makes.
_NAMES = """
    SELECT DISTINCT p.proname::text AS name FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
     WHERE p.pronamespace = 'farrier'::regnamespace AND l.lanname <> 'internal'
"""


async def with_settings(conn: Connection) -> None:
    for name, value in HOSTILE.items():
        await conn.execute(f"SELECT set_config('{name}', '{value}', false)")


async def results(conn: Connection) -> list[Any]:
    return [await conn.fetchval(f"SELECT farrier.{function}({arguments})") for function, arguments in INNER]


@pytest.mark.parametrize("role", list(CALLS))
async def test_every_function_of_a_role_works_under_hostile_settings(every_db: pg.Database, role: str) -> None:
    known = await prepared(every_db)
    async with every_db.connect() as conn:
        await conn.execute(SHADOWS)
        await conn.execute(f"SET ROLE {role}")
        await with_settings(conn)
        refused = {}
        for function, arguments in CALLS[role].items():
            try:
                await call(conn, function, arguments, known)
            except pg.PostgresError as error:
                refused[function] = str(error)
        assert refused == {}


async def test_inner_functions_return_the_same_under_hostile_settings(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        usual = await results(conn)
        await conn.execute(SHADOWS)
        await with_settings(conn)
        await conn.execute("SET TimeZone = 'UTC'")  # another zone spells the same time in another way
        assert await results(conn) == usual


async def test_the_loop_works_without_the_settings_of_its_own_sessions(
    every_db: pg.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions of the loop run for real, in sessions whose texts are hostile."""
    texts = {name: HOSTILE[name] for name in HOSTILE if name not in hostile.OF_FARRIER}
    monkeypatch.setattr(pool, "SESSION", pool.SESSION | texts)
    monkeypatch.setattr(pool, "TRACKED", pool.TRACKED | {"timezone": HOSTILE["timezone"]})
    known = await prepared(pg.Database(every_db.dsn))
    assert known["task"] is not None


@pytest.mark.full
@pytest.mark.timeout(1200)  # 400 tests in one process, beside other tests
async def test_every_function_runs_under_hostile_settings(db: pg.Database, tmp_path: Path) -> None:
    """Other tests run again in sessions with hostile settings, and their servers count the calls of functions. The
    tests above call the other functions."""
    record = tmp_path / "ran"
    tests = [str(Path(__file__).parent / each) for each in SCENARIOS]
    plugin = ["-q", "-p", "no:cacheprovider", "-p", hostile.__name__, "-m", "not full", *tests]
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = await anyio.run_process(
        [sys.executable, "-m", "pytest", *plugin], env=usual | {hostile.RECORD: str(record)}, check=False
    )
    assert run.returncode == 0, run.stdout.decode()[-5000:]
    async with db.connect() as conn:
        declared = {row["name"] for row in await conn.fetch(_NAMES)}
    called = {*record.read_text().split(), *(function for function, _ in INNER)}
    assert sorted(declared - called) == []


async def test_no_function_has_a_text_whose_meaning_depends_on_the_session(db: pg.Database) -> None:
    """A body is parsed again in each session, so a backslash needs the form E'…'. With `quote_all_identifiers`, the
    text of a schema, a table or a role has quotation marks."""
    async with db.connect() as conn:
        rows = await conn.fetch(_BODIES)
    faults = [
        f"{row['name']}: {literal}"
        for row in rows
        for literal in re.findall(r"(?<![\w'])'(?:[^']|'')*'", re.sub(r"--[^\n]*", "", row["body"]))
        if "\\" in literal
    ]
    faults += [row["name"] for row in rows if re.search(r"::reg(namespace|class|role|type|proc)::text", row["body"])]
    assert len(rows) > 100
    assert faults == []


async def test_every_setting_that_may_change_what_a_function_does_is_hostile(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("LOAD 'plpgsql'")
        settings = {row["name"] for row in await conn.fetch(_SETTINGS)}
    assert settings - HOSTILE.keys() <= NEUTRAL
