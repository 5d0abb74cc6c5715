"""Kinds that are removed, or whose tables were dropped: other kinds go on, and the kind can be installed again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import msgspec
import pytest

from farrier.errors import ConfigError, RefusedByModel, UndecodableState
from farrier.handlers.resource.extension import Extension
from farrier.io.connections.lock_timeout import LockPatience
from farrier.io.connections.pool import Connection
from farrier.io.kinds import packages
from farrier.model.kinds.resource import Answer
from farrier.model.kinds.spec import KindEdge, KindState
from farrier.wiring.kinds import installable
from tests.support import crates, loop, pg
from tests.support.crates import SPEC, Crate, CrateHandler, Hand, ask

NAME = "tests.support.crates:CRATE"
PACK = '{"size": 3}'
HASTY = LockPatience(wait=timedelta(milliseconds=20), pause=timedelta(0), tries=2)
REGISTRY = (
    *("kinds", "kind_layers", "kind_states", "kind_actions", "edges", "shards", "wakes", "marks", "outcomes"),
    "pool_numbers",
)


@pytest.fixture
async def conn(every_db: pg.Database) -> AsyncIterator[Connection]:
    async with every_db.connect() as conn:
        await install(conn)
        yield conn


async def install(conn: Connection) -> bool:
    crate: Extension[Crate, Answer, Hand] = Extension(
        spec=SPEC, snapshot=Crate, handler=CrateHandler(), columns=("labels",), sql=crates.CREATE
    )
    return await packages.install(conn, installable(crate))


async def end(conn: Connection) -> None:
    for state in ("packed", "emptying/unpack", "gone"):
        await conn.execute("UPDATE farrier_crates.crates SET state = $1 WHERE ended_at IS NULL", state)


async def traces(conn: Connection) -> list[str]:
    """The tables that still have rows of the kind."""
    return [
        table
        for table in REGISTRY
        if await conn.fetchval(f"SELECT EXISTS (SELECT FROM farrier.{table} WHERE kind = 'crate')")
    ]


async def test_a_kind_with_a_live_resource_is_not_removed(conn: Connection) -> None:
    await ask(conn, "create", "c-1", PACK)
    with pytest.raises(RefusedByModel, match="resources of kind crate have not ended: 1 in all, such as c-1"):
        await packages.remove(conn, "crate")
    await ask(conn, "create", "c-2", PACK)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("barrel", "unknown kind 'barrel'"),
        ("node", "kind node has its own tables"),
        ("network_segment", "is built in"),
    ],
)
async def test_the_removal_of_an_unknown_or_built_in_kind_is_refused(conn: Connection, name: str, told: str) -> None:
    with pytest.raises(RefusedByModel, match=told):
        await packages.remove(conn, name)


async def test_a_removed_kind_leaves_its_table_and_intents_and_can_be_installed_again(conn: Connection) -> None:
    await ask(conn, "create", "c-1", PACK)
    late = await ask(conn, "delete", "c-1")
    await end(conn)
    await packages.remove(conn, "crate")
    assert await traces(conn) == []
    answer = await conn.fetchval("SELECT status FROM farrier.resource_intents WHERE id = $1", late)
    assert answer == "rejected"
    assert await conn.fetchval("SELECT name FROM farrier_crates.crates") == "c-1"
    with pytest.raises(pg.PostgresError, match="unknown kind 'crate'"):
        await ask(conn, "create", "c-2", PACK)

    assert await install(conn)
    await ask(conn, "create", "c-1", PACK)
    assert await conn.fetchval("SELECT count(*) FROM farrier.list_resources('crate', true)") == 2
    assert await conn.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'crate'") == 1


async def test_a_dropped_schema_harms_no_other_kind(conn: Connection) -> None:
    """All functions that go over every kind still work: rights, listings, counts, late resources and names."""
    await ask(conn, "create", "c-1", PACK)
    await conn.execute("CREATE FUNCTION farrier_crates.f(bigint) RETURNS integer LANGUAGE sql AS 'SELECT 1'")
    await conn.execute("SELECT farrier.let_call('farrier_intents', 'farrier_crates.f(bigint)')")
    await conn.execute("DROP SCHEMA farrier_crates CASCADE")
    await conn.execute("SELECT farrier.grant_rights()")
    assert await conn.fetch("SELECT * FROM farrier.list_resources(NULL)") == []
    counted = await conn.fetch(
        "SELECT DISTINCT kind FROM farrier.count_resources('{}', '{}', '{}', '{}', '{}') ORDER BY kind"
    )
    assert [row["kind"] for row in counted] == ["ib_partition", "maas_region", "network_segment"]
    assert await conn.fetch("SELECT * FROM farrier.late_resources('{}', '{}', '{}', '{}', '{}', 9)") == []
    assert await conn.fetch("SELECT * FROM farrier.resource_names('crate', '{1}')") == []
    for asks in ("SELECT farrier.resource_intent('crate', 'c-2', 'create')", "SELECT farrier.list_resources('crate')"):
        with pytest.raises(pg.PostgresError, match="the table of kind crate was dropped") as refused:
            await conn.execute(asks)
        assert refused.value.sqlstate == "FR409"
    with pytest.raises(ConfigError, match="the table of kind crate was dropped"):
        await packages.require(conn, [(NAME, SPEC)])


async def test_a_kind_without_its_table_is_removed(conn: Connection) -> None:
    await ask(conn, "create", "c-1", PACK)
    await conn.execute("DROP SCHEMA farrier_crates CASCADE")
    await packages.remove(conn, "crate")
    assert await traces(conn) == []


async def test_a_table_that_is_made_anew_gives_no_id_a_second_time(conn: Connection) -> None:
    """History and intents refer to resources by id, so an id must not be used twice."""
    await ask(conn, "create", "c-1", PACK)
    before = await ask(conn, "delete", "c-1")
    await conn.execute("DROP SCHEMA farrier_crates CASCADE")
    assert await install(conn)
    again = await ask(conn, "create", "c-1", PACK)
    ids = [
        await conn.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", asked)
        for asked in (before, again)
    ]
    assert ids[1] > ids[0]
    assert await conn.fetchval("SELECT status FROM farrier.resource_intents WHERE id = $1", before) == "rejected"
    assert await conn.fetchval("SELECT array_agg(resource) FROM farrier.wakes WHERE kind = 'crate'") == [ids[1]]
    assert await conn.fetchval("SELECT slot FROM farrier_crates.crates") == 1


async def test_a_removal_gives_up_instead_of_blocking_clients_behind_its_lock(
    every_db: pg.Database, conn: Connection
) -> None:
    async with every_db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await ask(client, "create", "c-1", PACK)
        with pytest.raises(
            RefusedByModel, match=r"kind crate waits for a table that another transaction, .* has locked"
        ):
            await packages.remove(conn, "crate", patience=HASTY)
        await transaction.rollback()
    await packages.remove(conn, "crate", patience=HASTY)


async def test_an_upgrade_of_a_kind_waits_for_no_open_transaction(every_db: pg.Database, conn: Connection) -> None:
    async with every_db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await ask(client, "create", "c-1", PACK)
        with anyio.fail_after(loop.PATIENCE):
            assert not await install(conn)
        await transaction.rollback()


async def test_an_upgrade_that_removes_a_state_gives_way_to_waiting_clients(
    every_db: pg.Database, conn: Connection
) -> None:
    """The upgrade locks the table, so that no resource enters the state, and must not block clients for long."""
    lasts = KindState(why_none="it has ended")
    edges = (KindEdge("packing", "packed", "x"), KindEdge("packed", "gone", "x"))
    states = {**{name: SPEC.states[name] for name in ("packing", "packed")}, "gone": lasts}
    fewer = msgspec.structs.replace(SPEC, states=states, edges=edges)
    wanted = packages.Installable(spec=fewer, sql="", columns=frozenset())
    async with every_db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await ask(client, "create", "c-1", PACK)
        with pytest.raises(
            RefusedByModel, match=r"kind crate waits for a table that another transaction, .* has locked"
        ):
            await packages.install(conn, wanted, patience=HASTY)
        await packages.require(conn, [(NAME, SPEC)])
        await transaction.rollback()
    assert not await packages.install(conn, wanted, patience=HASTY)
    await packages.require(conn, [(NAME, fewer)])


async def test_the_loop_of_a_kind_survives_the_drop_of_its_table_and_uses_a_new_one(db: pg.Database) -> None:
    """A dropped schema must not end the controller, which also runs nodes."""
    async with crates.opened(db) as yard, db.connect() as conn:
        made = await yard.create()
        async with yard.controlled() as ledger:
            await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", made)
            await yard.pool.execute("DROP SCHEMA farrier_crates CASCADE")
            await yard.pool.execute("INSERT INTO farrier.wakes (kind, resource) VALUES ('crate', $1)", made)
            await ledger.until(lambda: UndecodableState.label in ledger.errors)
            await yard.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes WHERE kind = 'crate')")
            await install(conn)
            again = await yard.create("c-2")
            await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", again)
