"""The rights of each role, and their limits: tested by `SET ROLE`, so that no superuser's right interferes.

No superuser is needed: an ordinary user migrates the schema, and the whole loop runs in the controller's role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from farrier.config import NodeConfig
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from farrier.io.schema.files import rights_of
from farrier.model.node.snapshot import TaskType
from tests.support import pg, tokens
from tests.support import site as sites

TOKEN = tokens.named("token")

FORBIDDEN = "42501"

TABLES = (
    "nodes",
    "node_onboardings",
    "node_decommissions",
    "node_tasks",
    "node_agents",
    "node_conditions",
    "condition_drops",
    "monitors",
    "monitor_refusals",
    "node_macs",
    "node_bmcs",
    "node_identities",
    "bmc_logins",
    "bootstrap_tokens",
    "node_observations",
    "machine_disks",
    "node_uses",
    "node_ib_ports",
    "brakes",
    "brake_lifts",
    "held_nodes",
    "departures",
)
OF_THE_LOOP = (
    *(
        "controllers",
        "doors",
        "shards",
        "wakes",
        "marks",
        "outcomes",
        "history",
        "history_retention",
        "locks",
        "pulse",
        "mends",
        "installation",
        "restore_holds",
        "questions",
    ),
)
OF_THE_MODEL = (
    "edges",
    "workflow_mapping",
    "workflow_statuses",
    "clock_stops",
    "contradictions",
    "workflow_modes",
    "task_types",
    "actions",
    "constants",
    "schema_steps",
    "schema_set",
    "schema_objects",
    "migrator",
)
OF_KINDS = (
    "kinds",
    "kind_layers",
    "kind_states",
    "kind_actions",
    "resources",
    "number_pools",
    "pool_numbers",
    "freed_numbers",
    "callable",
    "workers",
)
OF_SEGMENTS = ("network_segments", "segment_usage", "segment_prefixes", "segment_free", "segment_addresses")
OF_PARTITIONS = ("ib_partitions", "ib_members")
OF_REGIONS = ("maas_regions",)
EVERY_TABLE = (
    *TABLES,
    *OF_THE_LOOP,
    *OF_THE_MODEL,
    *OF_KINDS,
    *OF_SEGMENTS,
    *OF_PARTITIONS,
    *OF_REGIONS,
    "intents",
    "limits",
    "settings",
    "resource_intents",
)


@asynccontextmanager
async def acting_as(db: pg.Database, role: str) -> AsyncIterator[Connection]:
    async with db.connect() as conn:
        await conn.execute(f"SET ROLE {role}")
        yield conn


async def refused(conn: Connection, *statements: str) -> list[str]:
    """The statements that the role may not execute; the others are rolled back."""
    found = []
    for statement in statements:
        transaction = conn.transaction()
        await transaction.start()
        try:
            await conn.execute(statement)
        except pg.PostgresError as error:
            if error.sqlstate != FORBIDDEN:
                raise
            found.append(statement)
        finally:
            await transaction.rollback()
    return found


async def columns_of(db: pg.Database, table: str) -> list[str]:
    async with db.connect() as conn:
        rows = await conn.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
            f"farrier.{table}",
        )
    return [row["attname"] for row in rows]


def writes_to(*tables: str) -> list[str]:
    return [
        statement
        for table in tables
        for statement in (
            f"INSERT INTO farrier.{table} DEFAULT VALUES",
            f"DELETE FROM farrier.{table}",
            f"TRUNCATE farrier.{table} CASCADE",
        )
    ]


@pytest.mark.parametrize(
    "role", ["farrier_intents", "farrier_agent", "farrier_worker", "farrier_monitor", "farrier_reader"]
)
async def test_only_the_controller_writes_tables(every_db: pg.Database, role: str) -> None:
    statements = writes_to(*EVERY_TABLE)
    async with every_db.connect() as owner:
        columns = await owner.fetch(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'farrier' AND is_updatable = 'YES'"
        )
    statements += [f"UPDATE farrier.{table} SET {column} = DEFAULT" for table, column in columns]
    if role == "farrier_intents":
        for table in ("intents", "resource_intents"):  # this role may insert into these two tables
            statements.remove(f"INSERT INTO farrier.{table} DEFAULT VALUES")
    async with acting_as(every_db, role) as conn:
        assert await refused(conn, *statements) == statements
    assert any(statement.startswith("UPDATE farrier.nodes SET status ") for statement in statements)


async def test_the_list_of_tables_in_these_tests_is_complete(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        rows = await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'farrier' ORDER BY 1")
        assert [row["tablename"] for row in rows] == sorted(EVERY_TABLE)


async def test_the_intents_role_inserts_intents_registers_nodes_and_reads_views(every_db: pg.Database) -> None:
    async with acting_as(every_db, "farrier_intents") as conn:
        node = await conn.fetchval(f"SELECT farrier.register_node('gpu-1', bootstrap_token => '{TOKEN}')")
        await conn.execute("INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'drain')")
        await conn.execute("SELECT farrier.intent('gpu-1', 'delete')")
        await conn.execute("SELECT farrier.issue_bootstrap('gpu-1')")
        await conn.execute("SELECT farrier.enqueue('node', $1)", node)
        for view in ("node_inventory", "node_lifecycle", "intents"):
            assert await conn.fetch(f"SELECT * FROM farrier.{view}"), view
        forbidden = [f"SELECT * FROM farrier.{table}" for table in (*TABLES, *OF_THE_LOOP)]
        forbidden += [
            "INSERT INTO farrier.intents (node, action, status) VALUES ('gpu-1', 'drain', 'accepted')",
            "SELECT farrier.claim_task('gpu-1', '{node.drain}', 'key')",
            "SELECT farrier.claim_work()",
            "SELECT farrier.grant_worker(session_user, '{node.drain}')",
            "SELECT farrier.heartbeat('gpu-1', '{}', 'key')",
            f"SELECT farrier.enroll_agent('{TOKEN}')",
        ]
        assert await refused(conn, *forbidden) == forbidden


async def test_the_agents_role_may_only_call_the_functions_of_agents(every_db: pg.Database) -> None:
    async with every_db.connect() as owner:
        await owner.execute(f"SELECT farrier.register_node('gpu-1', bootstrap_token => '{TOKEN}')")
    async with acting_as(every_db, "farrier_agent") as conn:
        key = await conn.fetchval(f"SELECT agent_key FROM farrier.enroll_agent('{TOKEN}')")
        await conn.execute("SELECT farrier.heartbeat('gpu-1', '{}', $1)", key)
        await conn.execute("SELECT farrier.claim_task('gpu-1', '{node.drain}', $1)", key)
        forbidden = [f"SELECT * FROM farrier.{table}" for table in EVERY_TABLE]
        forbidden += [
            "INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'drain')",
            "SELECT farrier.intent('gpu-1', 'drain')",
            "SELECT farrier.register_node('gpu-2')",
            "SELECT farrier.issue_bootstrap('gpu-1')",
            "SELECT farrier.enqueue('node', 1)",
            "SELECT farrier.claim_work()",
            "SELECT farrier.grant_worker(session_user, '{node.drain}')",
        ]
        assert await refused(conn, *forbidden) == forbidden


async def test_the_workers_role_may_only_work_on_tasks(every_db: pg.Database) -> None:
    async with every_db.connect() as owner:
        await owner.execute(f"SELECT farrier.register_node('gpu-1', bootstrap_token => '{TOKEN}')")
        await owner.execute("SELECT farrier.grant_worker(session_user, '{node.drain}')")
    async with acting_as(every_db, "farrier_worker") as conn:
        assert await conn.fetch("SELECT * FROM farrier.claim_work()") == []
        forbidden = [f"SELECT * FROM farrier.{table}" for table in (*EVERY_TABLE, "node_inventory", "node_lifecycle")]
        forbidden += [
            f"SELECT farrier.enroll_agent('{TOKEN}')",
            "SELECT farrier.heartbeat('gpu-1', '{}', 'key')",
            "SELECT farrier.claim_task('gpu-1', '{node.drain}', 'key')",
            "SELECT farrier.grant_worker(session_user, '{node.uninstall}')",
            "SELECT farrier.intent('gpu-1', 'drain')",
            "SELECT farrier.enqueue('node', 1)",
        ]
        assert await refused(conn, *forbidden) == forbidden


async def test_the_monitors_role_may_only_report_conditions(every_db: pg.Database) -> None:
    async with every_db.connect() as owner:
        await owner.execute("SELECT farrier.register_node('gpu-1')")
        await owner.execute("SELECT farrier.grant_monitor('am', login => session_user)")
    async with acting_as(every_db, "farrier_monitor") as conn:
        assert await conn.fetchval("SELECT verdict FROM farrier.set_condition('gpu-1', 'gpu/hot')") == "taken"
        forbidden = [f"SELECT * FROM farrier.{table}" for table in (*EVERY_TABLE, "node_inventory", "node_lifecycle")]
        forbidden += [
            "SELECT farrier.report_as('am', '[]')",
            "SELECT farrier.alert_labels('am')",
            "SELECT farrier.grant_monitor('am', effect => 'quarantine')",
            "SELECT farrier.revoke_monitor('am')",
            "SELECT farrier.heartbeat('gpu-1', '{}', 'key')",
            "SELECT farrier.claim_work()",
            "SELECT farrier.intent('gpu-1', 'drain')",
            "SELECT farrier.enqueue('node', 1)",
        ]
        assert await refused(conn, *forbidden) == forbidden


async def test_the_reader_sees_no_secret_and_calls_nothing(every_db: pg.Database) -> None:
    async with acting_as(every_db, "farrier_reader") as conn:
        readable = (
            "node_inventory",
            "node_lifecycle",
            "nodes",
            "intents",
            "history",
            "outcomes",
            "workers",
        )
        assert await refused(conn, *(f"SELECT * FROM farrier.{name}" for name in readable)) == []
        tokens_of_claimants = {"lease_token", "claim_key"}
        columns = await columns_of(every_db, "node_tasks")
        seen = ", ".join(column for column in columns if column not in tokens_of_claimants)
        assert await refused(conn, f"SELECT {seen} FROM farrier.node_tasks") == [], "only tokens are hidden"
        for token in tokens_of_claimants:
            assert token in columns
            assert await refused(conn, f"SELECT {token} FROM farrier.node_tasks") != []
        forbidden = [
            f"SELECT agent_key FROM farrier.enroll_agent('{TOKEN}')",
            "SELECT * FROM farrier.bootstrap_tokens",
            "SELECT * FROM farrier.node_agents",
            "SELECT farrier.intent('gpu-1', 'drain')",
            "SELECT farrier.register_node('gpu-2')",
            "SELECT farrier.enqueue('node', 1)",
        ]
        assert await refused(conn, *forbidden) == forbidden


async def test_the_controller_changes_neither_the_model_nor_history(every_db: pg.Database) -> None:
    async with acting_as(every_db, "farrier_controller") as conn:
        statements = [
            *writes_to(*OF_THE_MODEL, "settings"),
            "UPDATE farrier.constants SET login_cap = 100",
            "UPDATE farrier.edges SET layer = 'x'",
            "UPDATE farrier.history SET cause = 'x'",
            *writes_to("history", "history_retention", "locks"),
            *writes_to("node_bmcs", "node_identities", "bmc_logins", "workers"),
            "SELECT farrier.record_beginning('node', '{\"id\": 1}', 'a', 'b', 'c')",
            "SELECT farrier.grant_worker(session_user, '{node.drain}')",
            "SELECT farrier.revoke_worker(session_user)",
            "SELECT farrier.grant_rights()",
            "SELECT farrier.let_call('farrier_reader', 'farrier.now()')",
            "SELECT farrier.make_kind('node', 'farrier.nodes')",
            "SELECT farrier.forget_kind('ib_partition')",
        ]
        assert await refused(conn, *statements) == statements


async def test_every_table_and_view_is_named_in_the_rights_of_the_controller(every_db: pg.Database) -> None:
    """The controller may write or read every table and view, except those in `not_for_it`."""
    not_for_it: set[str] = set()
    (rights,) = (each for each in migrate.carried().objects if str(each) == "rights farrier_controller")
    named = {
        right.rpartition(" ON farrier.")[2]
        for right, _ in rights_of(rights.source)
        if not right.startswith("EXECUTE") and " ON farrier." in right
    }
    async with every_db.connect() as conn:
        rows = await conn.fetch(
            "SELECT c.relname FROM pg_class c"
            " WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')"
        )
    assert {row["relname"] for row in rows} == named | not_for_it


async def test_history_is_recorded_by_owners_of_shards_only_and_removed_by_retention_only(
    every_db: pg.Database,
) -> None:
    """The loop's role has no rights on the table of history; two functions write it with the owner's rights."""
    record = """
        SELECT farrier.record_moves('node', $1, '{}', ARRAY[$2::bigint], '{2}', '{1700000000}', '{1}', '{status}',
                                    '{enrolling}', '{active}', '{forged}', '{forged}', '{forged}')
    """
    async with every_db.connect() as owner:
        node = await owner.fetchval("SELECT farrier.register_node('gpu-1')")
    controller = uuid4()
    async with acting_as(every_db, "farrier_controller") as conn:
        own = "UPDATE farrier.shards SET owner = $1, epoch = 7 WHERE kind = 'node' AND shard = $2 % 64"
        await conn.execute(own, controller, node)
        with pytest.raises(pg.PostgresError, match="resources in shards of this controller"):
            await conn.execute(record, uuid4(), node)
        await conn.execute(record, controller, node)
        kept = "SELECT count(*) FROM farrier.history WHERE layer = 'status'"
        assert await conn.fetchval(kept) == 2
        await conn.execute("SELECT farrier.prune_history('infinity', NULL, NULL, NULL, NULL, NULL, 100, true)")
        assert await conn.fetchval(kept) == 1, "the newest of each layer stays"


async def test_the_whole_loop_runs_as_the_controllers_role(every_db: pg.Database) -> None:
    await every_db.set_default("role", "farrier_controller")
    async with sites.opened(every_db) as site:
        machine = await site.removing()
        assert (await machine.ask("resume")).status == "accepted"
        await machine.finish(TaskType.UNINSTALL)
        assert (await machine.look())["status"] == "deleted"
        assert await site.conn.fetchval("SELECT current_user") == "farrier_controller"
        await catalog.set_settings(site.conn, NodeConfig())
        other = await site.with_bmc()
        assert (await other.look())["management"] == "manageable"
        await other.asked("set", model="dgx-h100", macs=["02:00:00:00:00:07"])
        await other.asked("delete")


async def test_an_ordinary_user_migrates_and_the_rights_are_the_same(every_server: pg.Server) -> None:
    async with every_server.copy(pg.EMPTY) as empty:
        async with empty.connect() as conn:
            await migrate.create_roles(conn)
            name = await conn.fetchval("SELECT current_database()")
            await conn.execute(
                "DO $$ BEGIN IF to_regrole('plain_owner') IS NULL THEN CREATE ROLE plain_owner; END IF; END $$;"
                f"GRANT CREATE ON DATABASE {name} TO plain_owner"
            )
            await conn.execute("SET ROLE plain_owner")
            await migrate.migrate(conn, after=catalog.sync)
            assert not await conn.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        async with acting_as(empty, "farrier_intents") as conn:
            await conn.execute("SELECT farrier.register_node('gpu-1')")
            await conn.execute("INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'drain')")
            assert await refused(conn, "SELECT * FROM farrier.nodes")
