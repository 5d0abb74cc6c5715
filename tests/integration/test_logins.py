"""What the logins of farrier's three processes may do: every table, view, column and function is enumerated and tried.

The logins of the servers change no state and write no history, and read no secret. Only the login of the controller
writes states, and its history only by the functions of a commit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from farrier.io.connections.pool import Connection
from farrier.model.loop.doors import DoorKind
from tests.support import logins, partitions, pg, segments, tokens
from tests.support import site as sites

SERVERS = pytest.mark.parametrize("kind", DoorKind)
LOGINS = pytest.mark.parametrize("roles", [logins.CONTROLLER, *logins.ROLES.values()], ids="_".join)

STATE_COLUMNS = """
    SELECT DISTINCT a.attrelid::regclass::text AS relation, a.attname::text AS column
      FROM farrier.kind_layers l JOIN farrier.kinds k ON k.kind = l.kind
      JOIN pg_attribute a ON a.attrelid = coalesce(l.relation, k.relation)
     WHERE a.attname IN (l.layer, 'status', 'stage', 'state', 'management') AND a.attnum > 0 AND NOT a.attisdropped
"""
COLUMNS = """
    SELECT c.oid::regclass::text AS relation, a.attname::text AS column, c.relkind = 'r' AS is_table
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'v', 'p', 'm')
       AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2
"""
WRITABLE = "SELECT ARRAY(SELECT p FROM unnest('{INSERT,UPDATE}'::text[]) p WHERE has_column_privilege($1, $2, $3, p))"
OWN_FUNCTIONS = """
    SELECT p.oid::regprocedure::text AS name, p.proargtypes::oid[]::regtype[]::text[] AS types
      FROM pg_proc p
     WHERE p.pronamespace = 'farrier'::regnamespace AND p.prorettype <> 'trigger'::regtype
       AND has_function_privilege($1::text, p.oid, 'EXECUTE') ORDER BY 1
"""
# What a client of the API writes: its intents. Registration and other requests are functions.
INSERTS: Mapping[DoorKind, Mapping[str, set[str]]] = {
    DoorKind.PAGES: {
        "intents": {"node", "action", "params", "idempotency_key", "requested_by", "api_version"},
        "resource_intents": {"kind", "resource", "action", "params", "idempotency_key", "requested_by"},
    },
    DoorKind.AGENTS: {},
}
# The entries that are not of the database itself, which has the controller zero.
FORGED = """
    SELECT md5(string_agg(h::text, '' ORDER BY h::text)) FROM farrier.history h
     WHERE controller <> '00000000-0000-0000-0000-000000000000'
"""
# Calls of each function with arguments of this seed. More calls find nothing new.
CALLS = 60
SEED = 35


@asynccontextmanager
async def acting_as(db: pg.Database, roles: Sequence[str]) -> AsyncIterator[tuple[Connection, str]]:
    """A superuser's connection that acts with these roles, and the name of the login."""
    dsn = await logins.dsn_of(db, *roles)
    login = dsn.rpartition("role=")[2]
    async with db.connect() as conn:
        await conn.execute(f"SET ROLE {login}")
        yield conn, login


class Filled:
    """A database with resources in every state column, and the secrets in it."""

    def __init__(self, known: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
        self.known = known
        self.secrets = secrets

    def read_in(self, text: str) -> list[str]:
        """The secrets that the text contains."""
        return [name for name, secret in self.secrets.items() if secret in text]


async def filled(db: pg.Database) -> Filled:
    async with segments.opened(db) as lan:
        await lan.ready("lan")
    async with partitions.opened(db) as fabric:
        await fabric.ready("ib")
    async with sites.opened(db) as site:
        machine, other = await site.draining(), await site.draining()
        conn = site.conn
        await conn.execute("SELECT farrier.register_node('gpu-8', bootstrap_token => $1)", tokens.named("planted"))
        claimed = await conn.fetchrow("SELECT * FROM farrier.claim_task($1, '{node.drain}', $2)", other.name, other.key)
        assert claimed is not None
        token = await conn.fetchval("SELECT encode(hash, 'hex') FROM farrier.bootstrap_tokens ORDER BY 1 LIMIT 1")
        # The arguments contain the hash of the key of `machine`, so errors may repeat it.
        others = "SELECT encode(key_hash, 'hex') AS key FROM farrier.node_agents WHERE node_id <> $1"
        keys = await conn.fetch(others, machine.id)
        task = await conn.fetchval("SELECT id FROM farrier.node_tasks WHERE node_id = $1 LIMIT 1", machine.id)
    secrets = {f"hash of key {number}": row["key"] for number, row in enumerate(keys)}
    secrets |= {"hash of a token": token, "lease of another node": str(claimed["lease_token"])}
    known = {"node": machine.name, "id": machine.id, "key": machine.key, "task": task}
    return Filled(known, secrets)


async def states(conn: Connection) -> dict[str, str]:
    """The states of all resources, by column, without resources that are new."""
    found = {}
    for row in await conn.fetch(STATE_COLUMNS):
        text = f"SELECT coalesce(jsonb_object_agg(id, {row['column']}), '{{}}')::text FROM {row['relation']}"
        found[f"{row['relation']}.{row['column']}"] = str(await conn.fetchval(text))
    return found


def values(kind: str, known: Mapping[str, Any], chance: random.Random) -> Any:
    """A value of this type: one that exists, one of the edge, or one that attacks."""
    if kind.endswith("[]"):
        return chance.choice([None, [], [values(kind[:-2], known, chance) for _ in range(2)]])
    texts = (known["node"], "gpu-8", "gpu-new", "node", "network_segment", "ib", "lan", "ams1", "drain", "force_delete")
    more = (known["key"], tokens.named("planted"), "", "x" * 300, "'; UPDATE farrier.nodes SET status = 'active'; --")
    by_type: Mapping[str, Sequence[Any]] = {
        "text": (*texts, *more),
        "bigint": (known["id"], known["task"], 0, -1, 2**63 - 1),
        "integer": (1, 2, 0, -1, 2**31 - 1),
        "bytea": (sha256(known["key"].encode()).digest(), b"", b"\0" * 32),
        "uuid": (uuid4(),),
        "jsonb": (
            "{}",
            "[]",
            "null",
            '{"status": "active", "state": "ready", "stage": "done"}',
            '{"reason": "x", "force": true}',
            f'[{{"place": 0, "key": "{sha256(known["key"].encode()).hexdigest()}", "health": {{}}}}]',
            f'[{{"resource": "{known["id"]}", "action": "drain"}}]',
        ),
        "boolean": (True, False),
    }
    return chance.choice([None, *by_type.get(kind, ())])


def call(name: str, types: Sequence[str]) -> str:
    bound = ", ".join(f"${place}::text::{kind}" if kind in TEXTUAL else f"${place}" for place, kind in numbered(types))
    return f"SELECT * FROM {name.partition('(')[0]}({bound})"


# Types whose values are given as text, or are always null.
TEXTUAL = {"jsonb", "interval", "inet", "timestamp with time zone", "farrier.nodes", "nodes", "interval[]"}


def numbered(types: Sequence[str]) -> Sequence[tuple[int, str]]:
    return list(enumerate(types, 1))


@SERVERS
async def test_the_login_of_a_server_inserts_only_what_its_clients_request(db: pg.Database, kind: DoorKind) -> None:
    async with acting_as(db, logins.ROLES[kind]) as (conn, login):
        written: dict[str, set[str]] = {}
        for row in await conn.fetch(COLUMNS):
            rights = await conn.fetchval(WRITABLE, login, row["relation"], row["column"])
            if rights:
                assert rights == ["INSERT"], (row["relation"], row["column"], rights)
                written.setdefault(row["relation"], set()).add(row["column"])
        assert written == INSERTS[kind]
        for relation in {row["relation"] for row in await conn.fetch(COLUMNS)}:
            for right in ("DELETE", "TRUNCATE", "TRIGGER", "REFERENCES"):
                assert not await conn.fetchval("SELECT has_table_privilege($1, $2, $3)", login, relation, right)


async def test_the_login_of_the_agents_reads_no_table_and_no_view(db: pg.Database) -> None:
    async with acting_as(db, logins.ROLES[DoorKind.AGENTS]) as (conn, login):
        for row in await conn.fetch(COLUMNS):
            has = "SELECT has_column_privilege($1, $2, $3, 'SELECT')"
            assert not await conn.fetchval(has, login, row["relation"], row["column"]), row


async def test_the_login_of_the_pages_reads_no_secret(db: pg.Database) -> None:
    made = await filled(db)
    read = 0
    async with acting_as(db, logins.ROLES[DoorKind.PAGES]) as (conn, login):
        columns = await conn.fetch(COLUMNS)
        for relation, of_it in itertools.groupby(columns, lambda row: row["relation"]):
            has = "SELECT has_column_privilege($1, $2, $3, 'SELECT')"
            names = [row["column"] for row in of_it if await conn.fetchval(has, login, relation, row["column"])]
            if names:
                read += 1
                rows = await conn.fetch(f"SELECT {', '.join(f'{name}::text' for name in names)} FROM {relation}")
                assert made.read_in(str([tuple(row) for row in rows])) == [], relation
    assert read > 20


@SERVERS
async def test_no_function_lets_a_server_change_a_state_write_history_or_read_a_secret(
    db: pg.Database, kind: DoorKind
) -> None:
    made, chance = await filled(db), random.Random(SEED)
    texts: list[str] = []
    async with acting_as(db, logins.ROLES[kind]) as (conn, login):
        functions = await conn.fetch(OWN_FUNCTIONS, login)
        await conn.execute("RESET ROLE")
        before = await states(conn)
        history = await conn.fetchval(FORGED)
        succeeded = 0
        for function in functions:
            transaction = conn.transaction()
            await transaction.start()
            await conn.execute(f"SET LOCAL ROLE {login}")
            for _ in range(CALLS):
                arguments = [values(each, made.known, chance) for each in function["types"]]
                try:
                    async with conn.transaction():
                        rows = await conn.fetch(call(function["name"], function["types"]), *arguments)
                except pg.PostgresError as refused:
                    texts.append(str(refused))
                else:
                    succeeded += 1
                    texts.append(str([tuple(map(str, row)) for row in rows]))
            await conn.execute("RESET ROLE")
            await unchanged(conn, before, history, function["name"])
            await transaction.rollback()
    assert succeeded > len(functions)
    assert made.read_in("".join(texts)) == []


async def unchanged(conn: Connection, before: Mapping[str, str], history: str, function: str) -> None:
    """Assert that every resource has the state that it had, and that nobody wrote history in a controller's name."""
    for column, text in (await states(conn)).items():
        # A function may create a resource, which has a first state.
        kept = await conn.fetchval("SELECT $1::text::jsonb @> $2::text::jsonb", text, before[column])
        assert kept, (function, column)
    assert await conn.fetchval(FORGED) == history, function


@LOGINS
async def test_no_login_inserts_into_history_or_has_a_right_on_the_server(
    db: pg.Database, roles: tuple[str, ...]
) -> None:
    async with acting_as(db, roles) as (conn, login):
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            has = "SELECT has_table_privilege($1, 'farrier.history', $2)"
            assert not await conn.fetchval(has, login, right), right
        powers = "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls FROM pg_roles"
        assert not await conn.fetchval(f"{powers} WHERE rolname = $1", login)
        assert not await conn.fetchval("SELECT has_schema_privilege($1, 'farrier', 'CREATE')", login)
        for other in {*logins.CONTROLLER, *itertools.chain(*logins.ROLES.values())} - set(roles):
            assert not await conn.fetchval("SELECT pg_has_role($1, $2, 'MEMBER')", login, other), other
