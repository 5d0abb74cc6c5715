"""Kinds made of tables by make_kind: refusals, repeated calls, and the rights of roles on a kind."""

from __future__ import annotations

import pytest

from farrier.io.schema import catalog
from tests.support import crates, pg
from tests.support.crates import Yard, ask

PACK = '{"size": 3}'
CALL = "SELECT farrier.resource_intent('crate', $1, $2, $3::jsonb, $4)"


prepared, yard = crates.prepared, crates.yard


# --- who may


async def test_the_intents_role_inserts_intents_and_lists_and_changes_no_state(yard: Yard) -> None:
    async with yard.db.connect() as conn:
        await conn.execute("SET ROLE farrier_intents")
        await ask(conn, "create", "c-1", PACK)
        await conn.fetchval(CALL, "c-1", "delete", "{}", "k-1")
        assert len(await conn.fetch("SELECT * FROM farrier.list_resources('crate')")) == 1
        assert len(await conn.fetch("SELECT * FROM farrier.resource_intents")) == 2
        assert len(await conn.fetch("SELECT * FROM farrier_crates.crates")) == 1
        for forbidden in (
            "UPDATE farrier_crates.crates SET state = 'packed'",
            "INSERT INTO farrier_crates.crates (name) VALUES ('x')",
            "INSERT INTO farrier.resource_intents (resource_id) VALUES (1)",
            "UPDATE farrier.resource_intents SET status = 'accepted'",
            "SELECT farrier.take_number('slots', 'crate', 1)",
            "SELECT farrier.make_kind('crate', 'farrier_crates.crates')",
            "SELECT * FROM farrier.create_resource('crate', 'x', '{}')",
        ):
            with pytest.raises(pg.PostgresError) as refused:
                await conn.execute(forbidden)
            assert refused.value.sqlstate == "42501", forbidden


async def test_the_reader_reads_and_cannot_insert_an_intent(yard: Yard) -> None:
    await yard.create()
    async with yard.db.connect() as conn:
        await conn.execute("SET ROLE farrier_reader")
        for readable in ("list_resources('crate')", "resource_intents", "kinds", "kind_states", "pool_numbers"):
            assert await conn.fetch(f"SELECT * FROM farrier.{readable}"), readable
        with pytest.raises(pg.PostgresError) as refused:
            await ask(conn, "delete")
        assert refused.value.sqlstate == "42501"


async def test_roles_that_are_made_later_get_the_same_rights(yard: Yard) -> None:
    async with yard.db.connect() as conn:
        await conn.execute("REVOKE ALL ON farrier_crates.crates FROM farrier_controller")
        await conn.execute("SELECT farrier.let_call('farrier_intents', 'farrier.free_numbers(text,bigint)')")
        await conn.execute("REVOKE ALL ON FUNCTION farrier.free_numbers(text, bigint) FROM farrier_intents")
        await conn.execute("SELECT farrier.grant_rights()")
        await conn.execute("SET ROLE farrier_controller")
        assert await conn.fetch("SELECT * FROM farrier_crates.crates") == []
        await conn.execute("SET ROLE farrier_intents")
        await conn.execute("SELECT farrier.free_numbers('crate', 1)")


async def test_a_table_that_differs_from_the_template_is_refused_as_a_kind(yard: Yard) -> None:
    await yard.pool.execute("CREATE TABLE farrier_crates.barrels (id bigint, name text, state integer)")
    with pytest.raises(pg.PostgresError, match="lacks columns: site, version, commit_id, state") as refused:
        await yard.pool.execute("SELECT farrier.make_kind('barrel', 'farrier_crates.barrels')")
    assert refused.value.sqlstate == "FR400"


async def test_a_kind_without_states_refuses_an_insert(yard: Yard) -> None:
    await yard.pool.execute("CREATE TABLE farrier_crates.barrels (LIKE farrier.resources INCLUDING ALL)")
    await yard.pool.execute("SELECT farrier.make_kind('barrel', 'farrier_crates.barrels')")
    with pytest.raises(pg.PostgresError, match="kind barrel has no states yet") as refused:
        await yard.pool.execute("INSERT INTO farrier_crates.barrels (name) VALUES ('b-1')")
    assert refused.value.sqlstate == "FR409"


async def test_the_template_has_no_rows(yard: Yard) -> None:
    with pytest.raises(pg.PostgresError, match="has no rows"):
        await yard.pool.execute("INSERT INTO farrier.resources (name, state) VALUES ('x', 'y')")


async def test_make_kind_and_the_insert_of_its_model_may_be_repeated(yard: Yard) -> None:
    made = await yard.create()
    async with yard.db.connect() as conn:
        await conn.execute("SELECT farrier.make_kind('crate', 'farrier_crates.crates')")
        await catalog.sync_kinds(conn, [crates.SPEC])
        assert await conn.fetchval("SELECT count(*) FROM farrier.kind_states WHERE kind = 'crate'") == 4
        assert await conn.fetchval("SELECT count(*) FROM farrier.kind_actions WHERE kind = 'crate'") == 3
    assert await yard.create("c-2") != made


async def test_a_kind_has_one_table_and_a_table_one_kind(yard: Yard) -> None:
    await yard.pool.execute("CREATE TABLE farrier_crates.boxes (LIKE farrier.resources INCLUDING ALL)")
    for kind, table in (("crate", "boxes"), ("box", "crates")):
        with pytest.raises(pg.PostgresError, match=r"kind crate already has table farrier_crates.crates") as refused:
            await yard.pool.execute(f"SELECT farrier.make_kind('{kind}', 'farrier_crates.{table}')")
        assert refused.value.sqlstate == "FR409"
    await yard.create()


async def test_a_kind_that_has_a_table_does_not_get_a_second_one(yard: Yard) -> None:
    await yard.pool.execute("CREATE TABLE farrier_crates.boxes (LIKE farrier.resources INCLUDING ALL)")
    with pytest.raises(pg.PostgresError, match="kind node already has table nodes") as refused:
        await yard.pool.execute("SELECT farrier.make_kind('node', 'farrier_crates.boxes')")
    assert refused.value.sqlstate == "FR409"


async def test_names_are_unique_in_tables_whose_long_names_begin_alike(yard: Yard) -> None:
    for kind in ("one", "two"):
        table = f"farrier_crates.{'x' * 52}_{kind}"
        await yard.pool.execute(f"CREATE TABLE {table} (LIKE farrier.resources INCLUDING ALL)")
        await yard.pool.execute(f"SELECT farrier.make_kind('{kind}', '{table}')")
        await yard.pool.execute(
            f"INSERT INTO farrier.kind_states VALUES ('{kind}', 'state', 'new', true, false, NULL, 'x')"
        )
        await yard.pool.execute(f"INSERT INTO {table} (name) VALUES ('a')")
        with pytest.raises(pg.PostgresError) as refused:
            await yard.pool.execute(f"INSERT INTO {table} (name) VALUES ('a')")
        assert refused.value.sqlstate == "23505"


async def test_a_security_definer_function_may_be_called_by_the_controller_and_granted_roles(yard: Yard) -> None:
    await yard.pool.execute("""
        CREATE FUNCTION farrier_crates.wipe() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT current_user::text';
        CREATE FUNCTION farrier_crates.sum(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1';
        SELECT farrier.grant_rights();
    """)
    async with yard.db.connect() as conn:
        for role, may in (("farrier_reader", False), ("farrier_intents", False), ("farrier_controller", True)):
            may_wipe = "SELECT has_function_privilege($1, 'farrier_crates.wipe()', 'EXECUTE')"
            assert await conn.fetchval(may_wipe, role) is may
            may_sum = "SELECT has_function_privilege($1, 'farrier_crates.sum(integer)', 'EXECUTE')"
            assert await conn.fetchval(may_sum, role)
        await conn.execute("SELECT farrier.let_call('farrier_intents', 'farrier_crates.wipe()')")
        await conn.execute("SELECT farrier.grant_rights()")
        assert await conn.fetchval(may_wipe, "farrier_intents")
