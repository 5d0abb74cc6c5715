"""A pytest plugin that runs tests in sessions with hostile settings, and records which SQL functions ran.

`tests/integration/test_hostile_sessions.py` runs pytest with it. The settings replace those that farrier's own sessions
set, so that every function of the loop, too, runs without them. The server counts the calls; the names are written to
the file that `RECORD` names.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from farrier.io.connections import pool
from tests.support import again, pg

RECORD = "FARRIER_TEST_FUNCTIONS"

# Settings that any login may have. None of them is a right: a login whose transactions are read-only must not write.
HOSTILE = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "off",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Pacific/Chatham",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "plpgsql.extra_errors": "all",
    "default_transaction_isolation": "repeatable read",
    "search_path": "shadows, pg_catalog",
}
# The statements of farrier, which call the functions, name its tables without the schema, and wait for locks.
OF_FARRIER = ("search_path", "default_transaction_isolation")
# The server does not count calls of a function that it inlines, and it inlines no function with a setting.
NOT_INLINED = """
    DO $$ DECLARE each regprocedure; BEGIN
        FOR each IN SELECT p.oid FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
                     WHERE p.pronamespace = 'farrier'::regnamespace AND l.lanname = 'sql' AND p.proconfig IS NULL
        LOOP EXECUTE format('ALTER FUNCTION %s SET farrier_test.counted = ''on''', each); END LOOP;
    END $$;
"""
_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_RAN = "SELECT DISTINCT funcname::text FROM pg_stat_user_functions WHERE schemaname = 'farrier'"

_ran: set[str] = set()
_database = pg.Server.database
_make_template = pg.Server._make_template


@asynccontextmanager
async def _counted(self: pg.Server, *, prepared: pg.Install | None = None) -> AsyncIterator[pg.Database]:
    """A database whose functions are recorded after its test. A session reports its calls when it ends."""
    async with _database(self, prepared=prepared) as database:
        yield database
        database.leave()
        async with pg.Database(database.dsn).connect() as conn:
            with anyio.move_on_after(pg.PATIENCE.total_seconds()):
                while await conn.fetchval(_OTHERS):
                    await again.later()
            _record({row["funcname"] for row in await conn.fetch(_RAN)})


def _record(names: set[str]) -> None:
    with Path(os.environ[RECORD]).open("a") as record:
        record.writelines(f"{name}\n" for name in sorted(names - _ran))
    _ran.update(names)


async def _made(self: pg.Server) -> None:
    """Make the template as farrier migrates a database, in sessions with its own settings."""
    await _make_template(self)
    pool.SESSION.update({name: HOSTILE[name] for name in HOSTILE if name not in (*OF_FARRIER, "timezone")})
    pool.TRACKED["timezone"] = HOSTILE["timezone"]


def pytest_configure(config: pytest.Config) -> None:
    pg.FAST["track_functions"] = "all"
    pg.MOVABLE_CLOCK += NOT_INLINED
    pg.Server.database = _counted  # type: ignore[method-assign]
    pg.Server._make_template = _made  # type: ignore[method-assign]
