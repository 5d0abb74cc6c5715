"""An upgraded database of an older release equals a new one: after changed objects, and after steps."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import anyio
import pytest

from farrier.io.connections.embedded import wheel_binaries
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from tests.support import pg, releases
from tests.support.catalogs import catalogs
from tests.support.releases import Change, instead

FUNCTIONS: Mapping[str, Change] = {
    # Functions with other bodies: stored as text, parsed, and with the owner's rights.
    "function write_nodes": instead("version = n.version + 1", "version = 1 + n.version"),
    "function significant_fields": instead("'{last_sync,", "'{"),
    "function lift_brake": instead("SECURITY DEFINER", ""),
    "function details_of": instead("LANGUAGE sql", "STRICT LANGUAGE sql"),
    # Functions that the older release lacks.
    "function mendable": None,
    "function is_a_time": None,
    # Functions that only the older release has.
    "function old_age": "CREATE OR REPLACE FUNCTION farrier.old_age(n farrier.nodes) RETURNS interval LANGUAGE sql"
    " RETURN farrier.now() - n.created_at;",
    "function old_ages": "CREATE OR REPLACE FUNCTION farrier.old_ages() RETURNS interval LANGUAGE sql STABLE"
    " RETURN (SELECT sum(farrier.old_age(n)) FROM farrier.nodes n);",
}
# Signatures of functions that parsed bodies and views use.
SIGNATURES: Mapping[str, Change] = {
    "function same_machine": instead("RETURNS text[]", "RETURNS json"),
    "function has_networks": instead("(of_node bigint)", "(of_node bigint, unused boolean DEFAULT false)"),
    "function hosts_of": instead("OUT many numeric)", "OUT many numeric, OUT more boolean)"),
    "function details_of": instead("RETURNS jsonb", "RETURNS json"),
    "function register_node": instead("    name text, bmc_address", "    called text, bmc_address"),
    "view departing": instead("3 * c.brake_retry", "farrier.has_networks(d.node)::integer * c.brake_retry"),
}
VIEWS: Mapping[str, Change] = {
    "view node_inventory": instead("n.id, n.name,", "n.name, n.id, 1 AS one,"),
    "view still_clocks": instead("SELECT n.id AS node_id,", "SELECT n.id AS node_id, n.name AS called,"),
    "view node_clocks": instead("c.since, l.lasts", "c.since::timestamp AS since, l.lasts"),
    "view node_lifecycle": None,
    "view names": "CREATE OR REPLACE VIEW farrier.names AS SELECT i.name FROM farrier.node_inventory i;",
    "view all_names": "CREATE OR REPLACE VIEW farrier.all_names AS SELECT count(*) FROM farrier.names;",
    "function count_names": "CREATE OR REPLACE FUNCTION farrier.count_names() RETURNS bigint LANGUAGE sql"
    " RETURN (SELECT count FROM farrier.all_names);",
    "rights farrier_reader": instead("farrier.node_lifecycle, ", ""),
    "rights farrier_controller": instead(", farrier.node_lifecycle", ""),
    "rights farrier_intents": instead("farrier.node_lifecycle, ", ""),
}
TRIGGERS: Mapping[str, Change] = {
    "trigger nodes.guard_nodes": None,
    "trigger nodes.check_pair": instead("DEFERRABLE INITIALLY DEFERRED", ""),
    "trigger outcomes.note_error": instead("ENABLE ALWAYS TRIGGER", "ENABLE TRIGGER"),
    "trigger nodes.touch": "CREATE OR REPLACE TRIGGER touch BEFORE UPDATE ON farrier.nodes"
    " FOR EACH ROW EXECUTE FUNCTION farrier.touch();",
    "function touch": "CREATE OR REPLACE FUNCTION farrier.touch() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NEW; END $$;",
    "function make_kind": instead(
        "'enqueue_resource', 'enqueue_resource', 'AFTER INSERT'", "'touch', 'touch', 'BEFORE UPDATE'"
    ),
    "function enter_state": instead("BEGIN\n", "BEGIN\n    -- Enters.\n"),
}
RIGHTS: Mapping[str, Change] = {
    "rights 0_public": instead("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;", ""),
    "rights farrier_reader": instead("GRANT SELECT ON\n", "GRANT SELECT, UPDATE ON\n    farrier.bootstrap_tokens,"),
    "rights farrier_intents": instead("farrier.register_node,", "farrier.register_node, farrier.grant_worker,"),
    "rights farrier_controller": instead("farrier.grant_worker, farrier.revoke_worker", "farrier.grant_worker"),
    "rights farrier_worker": instead("farrier.claim_work, ", ""),
    "rights pg_monitor": "GRANT SELECT ON farrier.nodes TO pg_monitor;\nGRANT USAGE ON SCHEMA farrier TO pg_monitor;\n",
}
BARE: Mapping[str, Change] = {
    str(each): re.sub(r"\A(--[^\n]*\n)+", "", each.source) for each in migrate.carried().objects
}


@pytest.fixture
async def conn(every_server: pg.Server) -> AsyncIterator[Connection]:
    async with every_server.copy(pg.EMPTY) as database, database.connect() as conn:
        yield conn


@pytest.fixture
async def new(every_server: pg.Server) -> set[str]:
    """The catalogs of a new database."""
    async with every_server.copy(pg.EMPTY) as database, database.connect() as conn:
        await migrate.migrate(conn, after=catalog.sync)
        return await catalogs(conn)


@pytest.mark.parametrize(
    "older",
    [
        pytest.param({**FUNCTIONS, **RIGHTS, **TRIGGERS, **VIEWS}, id="all of it"),
        *(
            pytest.param(alone, id=name, marks=pytest.mark.full)
            for name, alone in {
                "signatures": SIGNATURES,
                "comments": BARE,
                "functions": FUNCTIONS,
                "views": VIEWS,
                "triggers": TRIGGERS,
                "rights": RIGHTS,
            }.items()
        ),
    ],
)
async def test_an_upgraded_older_set_equals_a_new_one(
    conn: Connection, new: set[str], older: Mapping[str, Change]
) -> None:
    await migrate.migrate(conn, schema=releases.schema(older, release="0.0.9"), after=catalog.sync)
    assert await catalogs(conn) != new
    assert await migrate.migrate(conn, after=catalog.sync)
    assert await catalogs(conn) == new
    assert not await migrate.migrate(conn, after=catalog.sync)
    assert not (await migrate.inspect(conn)).edited


async def test_after_a_server_upgrade_the_whole_set_is_made_again_and_equals_a_new_one(
    conn: Connection, new: set[str]
) -> None:
    await migrate.migrate(conn, after=catalog.sync)
    await conn.execute("UPDATE farrier.schema_set SET server = server - 1")
    assert len((await migrate.migrate(conn, after=catalog.sync)).changed) == len(migrate.carried().objects)
    assert await catalogs(conn) == new


async def test_a_database_that_went_through_a_step_equals_a_new_one(every_server: pg.Server, conn: Connection) -> None:
    """The comparison ignores the order of columns."""
    async with every_server.copy(pg.EMPTY) as database, database.connect() as fresh:
        await migrate.migrate(fresh, schema=releases.following(), after=catalog.sync)
        new = await catalogs(fresh)
    await migrate.migrate(conn, after=catalog.sync)
    assert (await migrate.migrate(conn, schema=releases.following(), after=catalog.sync)).versions == (2,)
    assert await catalogs(conn) == new
    assert not (await migrate.inspect(conn, schema=releases.following())).edited
    assert not await migrate.migrate(conn, schema=releases.following(), after=catalog.sync)


# The tables that transactions lock first, in the order in which transactions lock them; a commit of the loop, which
# locks shards before nodes, does not wait for the migration.
WAY = ["intents", "resource_intents", "bootstrap_tokens", "workers", "nodes", "node_inventory", "wakes", "shards"]
NEEDED = ["node_agents", "node_tasks", "settings", "history", "marks", "outcomes", "controllers"]


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("begun", WAY)
async def test_a_running_transaction_can_lock_all_its_tables_before_the_migration_does(
    db: pg.Database, begun: str
) -> None:
    async with db.connect() as conn, db.connect() as client, anyio.create_task_group() as group, client.transaction():
        await client.execute(f"LOCK TABLE farrier.{begun} IN ROW EXCLUSIVE MODE; SET LOCAL lock_timeout = '1s'")
        group.start_soon(partial(migrate.migrate, conn, schema=releases.following(), after=catalog.sync))
        await db.until_blocked()
        for needed in (*WAY[WAY.index(begun) :], *NEEDED):
            await client.execute(f"SELECT FROM farrier.{needed}")


async def test_a_new_body_of_a_function_waits_for_no_client(db: pg.Database) -> None:
    body = {"function significant_fields": instead("'{last_sync,", "'{")}
    async with db.connect() as conn, db.connect() as client, client.transaction():
        await client.execute("SELECT FROM farrier.nodes, farrier.shards, farrier.node_inventory")
        done = await migrate.migrate(conn, schema=releases.schema(body, release="9.9.9"))
        assert done.changed == ("function significant_fields",)


@pytest.fixture(params=["wheel", pytest.param("pg15", marks=pytest.mark.full)])
def programs_and_server(request: pytest.FixtureRequest) -> tuple[Path, pg.Server]:
    """Each supported server, with the programs of its version."""
    if request.param == "wheel":
        return wheel_binaries(), request.getfixturevalue("pg_server")
    return request.getfixturevalue("pg15_binaries"), request.getfixturevalue("pg15_server")


async def test_a_restored_dump_is_as_it_was_dumped_and_an_edit_of_it_is_named(
    programs_and_server: tuple[Path, pg.Server],
) -> None:
    """A view that the server prints differently after a restore would be named, too."""
    binaries, server = programs_and_server
    async with server.copy(pg.EMPTY) as dumped, server.copy(pg.EMPTY) as restored:
        async with dumped.connect() as conn:
            await migrate.migrate(conn, after=catalog.sync)
        dump = await anyio.run_process([str(binaries / "pg_dump"), "-d", dumped.dsn])
        restore = [str(binaries / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", "-d", restored.dsn]
        await anyio.run_process(restore, input=dump.stdout)
        async with restored.connect() as conn:
            status = await migrate.inspect(conn)
            status.require_current()
            assert (status.edited, status.comparable) == ((), True)
            assert not await migrate.migrate(conn, after=catalog.sync)
            await conn.execute("ALTER VIEW farrier.node_clocks SET (security_barrier)")
            assert (await migrate.inspect(conn)).edited == ("view node_clocks",)
