"""`farrier intent submit`: the intent is stored as it was typed, and the exit code reports the answer.

One UPDATE plays the controller, so that a test decides when and how the intent is answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt, force
from tests.support import pg

DRAIN = ("intent", "submit", "gpu-1", "drain")
ANSWER = """
    WITH answered AS (
        UPDATE farrier.intents SET status = $1, reason = $2, answered_at = farrier.now()
         WHERE status = 'pending' RETURNING id)
    SELECT pg_notify('farrier_intent_answered', '') FROM answered
"""
TASKS = """
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, result, ended_at)
    SELECT n.id, 1, t.type, t.status, '{"evicted": 3}', CASE t.status WHEN 'succeeded' THEN farrier.now() END
      FROM farrier.nodes n, (VALUES ('node.drain', 'succeeded'), ('node.uninstall', 'queued')) t (type, status)
     ORDER BY n.id, t.type
"""
LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%'"


@pytest.fixture
async def gpu(farrier: Prompt) -> Prompt:
    """Runs commands, on a database with a node."""
    await farrier("node", "add", "gpu-1")
    return farrier


async def asked(db: pg.Database) -> list[dict[str, Any]]:
    async with db.connect() as conn:
        columns = "id, node, action, params::text, api_version, idempotency_key, requested_by, status"
        return [dict(record) for record in await conn.fetch(f"SELECT {columns} FROM farrier.intents ORDER BY id")]


@asynccontextmanager
async def controller(db: pg.Database, status: str, reason: str | None = None, *after: str) -> AsyncIterator[None]:
    """Answer the next intent once a session listens for the answer, and then execute the statements `after`."""

    async def answer() -> None:
        await db.until(f"SELECT ({LISTENERS}) > 0")
        async with db.connect() as conn:
            await conn.execute("SET session_replication_role = replica")
            await conn.execute(ANSWER, status, reason)
            for statement in after:
                await conn.execute(statement)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        yield


async def test_an_intent_is_inserted_with_its_typed_parameters(gpu: Prompt, db: pg.Database) -> None:
    params = ("force=true", "remove_maas=false", "reason=a=b c")
    said = await gpu("intent", "submit", "gpu-1", "remove", *params, "--requested-by", "me", "--json")
    (intent,) = await asked(db)
    assert said.json == {"intent": intent["id"], "status": "pending"}
    assert intent["params"] == '{"force": true, "reason": "a=b c", "remove_maas": false}'
    assert (intent["node"], intent["requested_by"], intent["api_version"]) == ("gpu-1", "me", 2)


async def test_set_takes_values_by_name_lists_with_commas_and_labels_as_json(gpu: Prompt, db: pg.Database) -> None:
    await gpu(
        "intent", "submit", "gpu-1", "set", 'labels={"rack": "7"}', "macs=02:00:00:00:00:01,02:00:00:00:00:02", "site=7"
    )
    (intent,) = await asked(db)
    assert intent["params"] == (
        '{"macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"], "site": "7", "labels": {"rack": "7"}}'
    )


async def test_a_text_parameter_with_the_value_true_stays_a_text(gpu: Prompt, db: pg.Database) -> None:
    await gpu("intent", "submit", "gpu-1", "quarantine", "reason=true")
    assert [intent["params"] for intent in await asked(db)] == ['{"reason": "true"}']


async def test_the_same_key_returns_the_same_intent_and_other_content_under_it_is_refused(
    gpu: Prompt, db: pg.Database
) -> None:
    words = ("intent", "submit", "gpu-1", "quarantine", "--idempotency-key", "k")
    first = (await gpu(*words, "reason=smoke", "--json")).json
    assert (await gpu(*words, "reason=smoke", "--json")).json == first
    refused = await gpu(*words, "reason=fire", ends=ExitCode.USAGE)
    assert f"belongs to intent {first['intent']}" in refused.err
    assert len(await asked(db)) == 1


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["gpu-1", "explode"], ExitCode.USAGE, "unknown action 'explode'"),
        (["gpu-1", "explode"], ExitCode.USAGE, "hint: Known: adopt,"),
        (["gpu-1", "drain", "force=perhaps"], ExitCode.USAGE, "force must be true or false"),
        (["gpu-1", "quarantine"], ExitCode.USAGE, "parameter reason is missing"),
        (["gpu-1", "drain", "now"], ExitCode.USAGE, "expected KEY=VALUE"),
        (["gpu-1", "drain", "--timeout", "soon", "--wait"], ExitCode.USAGE, "expected a duration such as"),
        (["gpu-1", "set", "labels=rack"], ExitCode.USAGE, "labels must be a JSON object"),
        (["gpu-9", "drain"], ExitCode.REFUSED, "no node is named 'gpu-9'"),
        (["gpu-1", "pause", "reason=x", "--api-version", "1"], ExitCode.REFUSED, "requires api_version 2"),
        (["gpu-1", "drain", "--api-version", "99"], ExitCode.REFUSED, "api_version 99 is not supported"),
    ],
)
async def test_a_malformed_intent_is_a_usage_error_and_a_refused_one_has_its_own_code(
    gpu: Prompt, db: pg.Database, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await gpu("intent", "submit", *words, ends=code)
    assert text in " ".join(refused.err.replace("│", " ").split())
    assert not refused.out
    assert await asked(db) == []


async def test_an_accepted_intent_ends_with_0_and_the_reason_of_its_answer(gpu: Prompt, db: pg.Database) -> None:
    async with controller(db, "accepted", "the drain begins"):
        said = await gpu(*DRAIN, "--wait")
    assert "accepted: the drain begins" in said.out


async def test_the_answer_is_printed_as_json(gpu: Prompt, db: pg.Database) -> None:
    async with controller(db, "accepted"):
        said = (await gpu(*DRAIN, "--wait", "--json")).json
    assert (said["status"], said["reason"]) == ("accepted", None)
    assert said["answered_at"].startswith("20")


@pytest.mark.parametrize("status", ["rejected", "superseded"])
async def test_an_intent_that_was_not_accepted_ends_with_3_and_the_reason(
    gpu: Prompt, db: pg.Database, status: str
) -> None:
    async with controller(db, status, "is accepted in status active"):
        refused = await gpu(*DRAIN, "--wait", "--json", ends=ExitCode.REFUSED)
    assert f"was {status}: is accepted in status active" in refused.err
    assert refused.json["status"] == status


async def test_an_intent_stays_pending_when_the_command_stops_waiting_for_its_answer(
    gpu: Prompt, db: pg.Database
) -> None:
    late = await gpu(*DRAIN, "--wait", "--timeout", "1s", ends=ExitCode.FAILED)
    assert "not answered within 1s" in late.err
    assert [intent["status"] for intent in await asked(db)] == ["pending"]


async def test_until_ends_once_the_node_is_in_the_status(gpu: Prompt, db: pg.Database) -> None:
    async with controller(db, "accepted", None, "UPDATE farrier.nodes SET status = 'draining'"):
        said = await gpu(*DRAIN, "--until", "draining")
    assert said.out.splitlines()[-1] == "gpu-1 is draining"


async def test_until_does_not_wait_for_a_node_that_is_deleted(gpu: Prompt, db: pg.Database) -> None:
    async with controller(db, "accepted", None, "UPDATE farrier.nodes SET status = 'deleted'"):
        said = await gpu(*DRAIN, "--until", "retired", "--timeout", "1h", ends=ExitCode.FAILED)
    assert "gpu-1 is deleted, so it cannot become retired" in said.err


async def test_until_gives_up_and_reports_the_status_of_the_node(gpu: Prompt, db: pg.Database) -> None:
    async with controller(db, "accepted"):
        late = await gpu(*DRAIN, "--until", "retired", "--timeout", "2s", ends=ExitCode.FAILED)
    assert "is enrolling, not retired, after 2s" in late.err


async def test_an_answer_is_noticed_even_without_a_notification(gpu: Prompt, db: pg.Database) -> None:
    silent = "UPDATE farrier.intents SET status = 'accepted', answered_at = farrier.now()"

    async def answer() -> None:
        await db.until(f"SELECT ({LISTENERS}) > 0")
        async with db.connect() as conn:
            await conn.execute(silent)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        await gpu(*DRAIN, "--wait")


async def test_an_enqueued_node_has_a_wake(gpu: Prompt, db: pg.Database) -> None:
    node = (await gpu("node", "show", "gpu-1", "--json")).json["id"]
    for given in ("gpu-1", node):
        async with db.connect() as conn:
            await conn.execute("DELETE FROM farrier.wakes")
        assert f"node {node} is enqueued" in (await gpu("enqueue", "node", given)).out
        async with db.connect() as conn:
            assert await conn.fetchval("SELECT array_agg(resource) FROM farrier.wakes WHERE kind = 'node'") == [node]


async def test_a_region_is_enqueued_by_its_site(gpu: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute(
            "SELECT farrier.set_sites($1::jsonb)",
            '[{"site": "ams1", "url": "http://maas.test/MAAS", "motion_seconds": 30, "sweep_seconds": 1800}]',
        )
        region = await conn.fetchval("SELECT id FROM farrier.maas_regions WHERE name = 'ams1'")
        await conn.execute("DELETE FROM farrier.wakes")
        await gpu("enqueue", "maas_region", "ams1")
        woken = await conn.fetch("SELECT kind, resource FROM farrier.wakes")
    assert [tuple(row) for row in woken] == [("maas_region", region)]


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("node", "gpu-9", "no node is named"),
        ("node", "99", "no node has ID 99"),
        ("maas_region", "x", "no maas region is named 'x'"),
    ],
)
async def test_a_missing_resource_cannot_be_enqueued(gpu: Prompt, kind: str, given: str, text: str) -> None:
    assert text in (await gpu("enqueue", kind, given, ends=ExitCode.REFUSED)).err


async def test_tasks_are_listed_newest_first_and_by_node_and_status(gpu: Prompt, db: pg.Database) -> None:
    await gpu("node", "add", "gpu-2")
    assert (await gpu("task", "list", "--json")).json == []
    await force(db, TASKS)
    await db.advance(timedelta(minutes=5))
    listed = (await gpu("task", "list", "--json")).json
    assert [(task["node"], task["type"]) for task in listed] == [
        ("gpu-2", "node.uninstall"),
        ("gpu-2", "node.drain"),
        ("gpu-1", "node.uninstall"),
        ("gpu-1", "node.drain"),
    ]
    assert listed[0]["result"] == {"evicted": 3}
    one = (await gpu("task", "list", "gpu-1", "--status", "succeeded", "--json")).json
    assert [(task["node"], task["type"], task["status"]) for task in one] == [("gpu-1", "node.drain", "succeeded")]
    assert "5m" in (await gpu("task", "list", "--limit", 1)).out.splitlines()[1].split()
