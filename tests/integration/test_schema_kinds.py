"""Kinds of other packages keep their triggers and rights when a migration changes farrier's own objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import msgspec
import pytest

from farrier import errors
from farrier.handlers.resource.extension import Extension
from farrier.io.connections.pool import Connection
from farrier.io.kinds import packages
from farrier.io.schema import catalog, migrate
from farrier.io.schema.files import Schema
from farrier.model.kinds.resource import Answer
from farrier.wiring.kinds import installable
from tests.support import crates, pg, releases
from tests.support.crates import Crate, CrateHandler, Hand

CRATE: Extension[Crate, Answer, Hand] = Extension(
    spec=crates.SPEC, snapshot=Crate, handler=CrateHandler(), columns=("labels",), sql=crates.CREATE
)

# Additions of a package to its kind: a trigger of its own, a trigger with farrier's function, and rights.
THEIRS = """
    CREATE FUNCTION farrier_crates.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
    CREATE TRIGGER look BEFORE UPDATE ON farrier_crates.crates FOR EACH ROW EXECUTE FUNCTION farrier_crates.look();
    CREATE TRIGGER hold_none BEFORE TRUNCATE ON farrier_crates.crates
        FOR EACH STATEMENT EXECUTE FUNCTION farrier.refuse_template_row();
    CREATE FUNCTION farrier_crates.count() RETURNS bigint LANGUAGE sql SECURITY DEFINER
        AS 'SELECT count(*) FROM farrier_crates.crates';
    SELECT farrier.grant_kind_rights('farrier_crates.crates');
    SELECT farrier.let_call('farrier_reader', 'farrier_crates.count()');
    GRANT INSERT ON farrier_crates.crates TO farrier_reader;
"""
TRIGGERS = """
    SELECT t.tgname, pg_get_triggerdef(t.oid), t.tgenabled FROM pg_trigger t
     WHERE t.tgrelid = 'farrier_crates.crates'::regclass AND NOT t.tgisinternal ORDER BY 1
"""
RIGHTS = """
    SELECT x.grantee::regrole::text, x.privilege_type, c.relname FROM pg_class c, aclexplode(c.relacl) x
     WHERE c.relnamespace = 'farrier_crates'::regnamespace
    UNION ALL
    SELECT x.grantee::regrole::text, x.privilege_type, p.proname FROM pg_proc p, aclexplode(p.proacl) x
     WHERE p.pronamespace = 'farrier_crates'::regnamespace
     ORDER BY 1, 2, 3
"""


@pytest.fixture
async def conn(every_db: pg.Database) -> AsyncIterator[Connection]:
    async with every_db.connect() as conn:
        yield conn


def next_release(**changes: releases.Change) -> Schema:
    return releases.schema({f"function {name}": change for name, change in changes.items()}, release="9.9.9")


COMMENTED = releases.instead("BEGIN\n", "BEGIN\n    -- As before.\n")
STRICTER = releases.instead("one.layer IS NOT NULL", "false")


@pytest.mark.parametrize(
    "after",
    [
        next_release(enter_state=COMMENTED),
        next_release(make_kind=COMMENTED),
        next_release(
            make_kind=COMMENTED, begin_resource=COMMENTED, grant_kind_rights=COMMENTED, grant_rights=COMMENTED
        ),
    ],
    ids=["a function of a trigger", "make_kind", "all of them"],
)
async def test_a_kind_keeps_its_triggers_and_rights(conn: Connection, after: Schema) -> None:
    await packages.install(conn, installable(CRATE))
    await conn.execute(THEIRS)
    triggers, rights = await conn.fetch(TRIGGERS), await conn.fetch(RIGHTS)
    assert [row["tgname"] for row in triggers] == [
        "begin_resource",
        "enqueue_resource",
        "enter_state",
        "hold_none",
        "look",
        "take_slot",
    ]
    assert await migrate.migrate(conn, schema=after, after=catalog.sync)
    assert await conn.fetch(TRIGGERS) == triggers
    assert await conn.fetch(RIGHTS) == rights
    await crates.ask(conn, "create", "c-1", '{"size": 3}')
    assert await conn.fetchval("SELECT state FROM farrier_crates.crates") == "packing"


async def test_a_kind_gets_the_triggers_that_a_new_make_kind_makes(conn: Connection) -> None:
    await packages.install(conn, installable(CRATE))
    await migrate.migrate(conn, schema=next_release(make_kind=STRICTER), after=catalog.sync)
    made = {row[0]: row[1] for row in await conn.fetch(TRIGGERS)}
    assert "WHEN" not in made["enter_state"]


async def test_a_table_without_its_defaults_is_refused_with_the_statement_that_restores_them(
    conn: Connection,
) -> None:
    await packages.install(conn, installable(CRATE))
    await conn.execute("DROP SCHEMA farrier CASCADE")
    await migrate.migrate(conn, after=catalog.sync)
    with pytest.raises(errors.RefusedByModel, match=r"farrier_crates\.crates lacks defaults") as refused:
        await packages.install(conn, installable(CRATE))
    assert "created_at SET DEFAULT farrier.now()" in str(refused.value)
    await conn.execute(str(refused.value).partition("restore its defaults: ")[2].removesuffix(")"))
    assert await packages.install(conn, installable(CRATE))


async def test_a_migration_and_an_installation_at_once_take_turns(db: pg.Database) -> None:
    """Both grant rights on the same tables; PostgreSQL fails one of two sessions that do so at the same moment."""
    slow = msgspec.structs.replace(CRATE, sql=f"SELECT pg_advisory_xact_lock(7); {crates.CREATE}")
    changed = next_release(grant_rights=COMMENTED)
    async with db.connect() as one, db.connect() as other, db.connect() as watch:
        await watch.execute("SELECT pg_advisory_lock(7)")
        async with anyio.create_task_group() as group:
            group.start_soon(packages.install, one, installable(slow))
            await db.until_blocked()
            group.start_soon(partial(migrate.migrate, other, schema=changed, after=catalog.sync))
            await db.until_blocked(2)
            await watch.execute("SELECT pg_advisory_unlock(7)")
        assert await watch.fetchval("SELECT to_regclass('farrier_crates.crates') IS NOT NULL")
        (await migrate.check(watch, schema=changed)).require_current()
