"""Every function that a role may call works under that role.

A function without SECURITY DEFINER runs with the rights of its caller, and fails where it calls a function or reads a
table that is not granted to that role. So each is called here once.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from farrier.io.connections.pool import Connection
from tests.support import partitions, pg, segments, tokens
from tests.support import site as sites
from tests.support.partitions import GUIDS

# Functions with their arguments, in an order in which each call can succeed. `$words` are values of `prepared` or
# results of earlier calls.
OF_ALL = {
    "now": "",
    "api_version": "",
    "schema_version": "",
}
LOOKING = {
    "any_resource": "'network_segment', 'lan'",
    "resource_names": "'network_segment', ARRAY[$segment]",
    "count_resources": "'{network_segment}', '{ready}', '{site}', '{ams1}', '{1 minute}'",
    "count_states": "NULL",
    "late_resources": "'{network_segment}', '{ready}', '{site}', '{ams1}', '{1 minute}', 10",
    "list_resources": "'network_segment'",
    "shard_of": "$segment",
    "show_resources": "'network_segment', NULL, NULL, NULL, false, NULL, NULL, 10",
    "list_addresses": "'lan'",
    "partition_members": "'ib'",
}
CALLS = {
    "farrier_intents": OF_ALL
    | LOOKING
    | {
        "bootstrap_token": "repeat('0123456789abcdef', 4)",
        "register_node": "'gpu-9', bootstrap_token => '$bootstrap_token'",
        "issue_bootstrap": "'gpu-9'",
        "revoke_bootstrap": "'gpu-9'",
        "intent": "'gpu-9', 'drain'",
        "enqueue": "'node', $register_node",
        "set_ib_ports": f"'gpu-9', '{{{GUIDS[1]}}}'",
        "resource_intent": "'network_segment', 'lan', 'update', '{\"add_prefixes\": [\"10.1.0.0/24\"]}'",
        "allocate_address": "'lan', 'a'",
        "release_address": "'lan', '$allocate_address', 'a'",
        "join_partition": f"'ib', '{GUIDS[1]}', 'a'",
        "leave_partition": f"'ib', '{GUIDS[1]}', 'a'",
        "lift_brake": "'ams1', 'planned work'",
        "foresee": '\'node\', \'[{"resource": "1", "action": "drain"}]\'',
        "foreseen": "gen_random_uuid()",
        "list_holds": "",
        "lift_holds": "NULL, NULL, NULL, NULL, 'compared'",
        "alert_labels": "'am'",
        "report_as": "'am', '[]'",
        "refuse_truncated": "'am', '{}:{}', 7",
        "pulse_pages_door": "gen_random_uuid(), 'web-1', '1.0'",
        "leave_door": "gen_random_uuid()",
    },
    "farrier_agent": OF_ALL
    | {
        "enroll_agent": "'$token'",
        "heartbeat": "'$node', '{}', '$key'",
        "claim_task": "'$node', '{node.drain}', '$key'",
        "renew_task": "'$node', $task, '$lease', '$key'",
        "finish_task": "'$node', $task, '$lease', '$key', true",
        "enroll_agents": "'[]'",
        "take_beats": "jsonb_build_array(jsonb_build_object('place', 0, 'key', '$digest', 'health', '{}'::jsonb))",
        "put_facts": "decode('$digest', 'hex'), repeat('0', 64), '{}'",
        "claim_by_key": "decode('$digest', 'hex'), '{node.drain}', gen_random_uuid()",
        "renew_by_key": "decode('$digest', 'hex'), $other, '$lease'",
        "finish_by_key": "decode('$digest', 'hex'), $other, '$lease', true, NULL",
        "pulse_agents_door": "gen_random_uuid(), 'door-1', '1.0', true",
        "leave_door": "gen_random_uuid()",
    },
    "farrier_worker": OF_ALL
    | {
        "claim_work": "",
        "renew_work": "$task, '$lease'",
        "finish_work": "$task, '$lease', true",
    },
    "farrier_monitor": OF_ALL
    | {
        "set_condition": "'$node', 'gpu/hot'",
        "end_condition": "'$node', 'gpu/hot'",
        "report_conditions": "'[]'",
    },
    "farrier_reader": OF_ALL
    | LOOKING
    | {
        "node_facts": "$id",
        "alike_machines": "$id",
        "same_machine": "$id",
        "foresee": '\'node\', \'[{"resource": "1", "action": "drain"}]\'',
        "foreseen": "gen_random_uuid()",
        "columns_of": "(SELECT n FROM farrier.nodes n WHERE n.id = $id)",
        "selected_nodes": "'{}', '{}', '{}', false, '{}', '{}', '{}'",
        "text_array": "'[]'",
        "list_holds": "",
        "late_clocks": "'{node}', '{active}', '{\"\"}', '{\"\"}', '{\"\"}', '{1 minute}', farrier.now()",
    },
}
GRANTED = """
    SELECT DISTINCT p.proname::text FROM pg_proc p
     WHERE p.pronamespace = 'farrier'::regnamespace AND p.prorettype <> 'trigger'::regtype
       AND has_function_privilege($1::text, p.oid, 'EXECUTE') ORDER BY 1
"""


async def prepared(db: pg.Database) -> dict[str, Any]:
    """Fill the database with a resource of each kind; returns the names, ids and tokens that calls need."""
    async with segments.opened(db) as lan:
        segment = await lan.ready("lan")
    async with partitions.opened(db) as fabric:
        await fabric.ready("ib")
    async with sites.opened(db) as site:
        machine = await site.draining()
        queued = "SELECT id FROM farrier.node_tasks WHERE status = 'queued' AND node_id = $1"
        task = await site.conn.fetchval(queued, machine.id)
        other = await site.draining()
        others = await site.conn.fetchval(queued, other.id)
        await site.conn.execute("SELECT farrier.register_node('gpu-8', bootstrap_token => $1)", tokens.named("new"))
        await site.conn.execute("SELECT farrier.grant_worker(session_user, '{node.drain}')")
        await site.conn.execute("SELECT farrier.grant_monitor('am', login => session_user)")
        await site.conn.execute(
            "INSERT INTO farrier.brake_lifts (site, until, reason, requested_by)"
            " VALUES ('ams1', farrier.now() + interval '1 hour', 'planned work', 'ann')"
        )
        named = {"node": machine.name, "id": machine.id, "key": machine.key, "task": task}
        named |= {"other": others, "digest": sha256(other.key.encode()).hexdigest()}
    return {"segment": segment, "token": tokens.named("new"), **named}


async def call(conn: Connection, function: str, arguments: str, known: dict[str, Any]) -> None:
    """Call the function, and add its result to `known`."""
    for word in sorted(known, key=len, reverse=True):
        arguments = arguments.replace(f"${word}", str(known[word]))
    row = await conn.fetchrow(f"SELECT * FROM farrier.{function}({arguments})")
    if row is not None and len(row):
        known[function] = row[0]
        known |= {"lease": row["lease_token"]} if "lease_token" in row else {}


@pytest.mark.parametrize("role", list(CALLS))
async def test_every_function_granted_to_a_role_works_under_that_role(every_db: pg.Database, role: str) -> None:
    known = await prepared(every_db)
    async with every_db.connect() as conn:
        await conn.execute(f"SET ROLE {role}")
        granted = [row["proname"] for row in await conn.fetch(GRANTED, role)]
        assert granted == sorted(CALLS[role]), "every granted function is in CALLS"
        refused = {}
        for function, arguments in CALLS[role].items():
            try:
                await call(conn, function, arguments, known)
            except pg.PostgresError as error:
                refused[function] = str(error)
        assert refused == {}
