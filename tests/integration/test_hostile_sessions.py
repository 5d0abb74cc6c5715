"""SQL functions do not depend on the settings of a session, which its login or its database may have set."""

from __future__ import annotations

import re
from typing import Any

import pytest

from farrier.io import pool
from farrier.io.pool import Connection
from tests.integration.node.test_granted_calls import CALLS, call, prepared
from tests.support import pg
from tests.support.partitions import GUIDS

# Settings that any login may have. None of them is a right: a login whose transactions are read-only must not write.
HOSTILE = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "off",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Pacific/Chatham",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "default_transaction_isolation": "repeatable read",
    "search_path": "shadows, pg_catalog",
}
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
)
_BODIES = """
    SELECT p.proname::text AS name, p.prosrc AS body FROM pg_proc p
     WHERE p.pronamespace = 'farrier'::regnamespace AND p.prosrc <> '' ORDER BY 1
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
    texts = {name: HOSTILE[name] for name in HOSTILE if name not in ("search_path", "default_transaction_isolation")}
    monkeypatch.setattr(pool, "SESSION", pool.SESSION | texts)
    monkeypatch.setattr(pool, "TRACKED", pool.TRACKED | {"timezone": HOSTILE["TimeZone"]})
    known = await prepared(pg.Database(every_db.dsn))
    assert known["task"] is not None


async def test_no_function_has_a_text_whose_meaning_depends_on_standard_conforming_strings(db: pg.Database) -> None:
    """A body is parsed again in each session, so a backslash needs the form E'…'."""
    async with db.connect() as conn:
        rows = await conn.fetch(_BODIES)
    faults = [
        f"{row['name']}: {literal}"
        for row in rows
        for literal in re.findall(r"(?<![\w'])'(?:[^']|'')*'", re.sub(r"--[^\n]*", "", row["body"]))
        if "\\" in literal
    ]
    assert len(rows) > 100
    assert faults == []
