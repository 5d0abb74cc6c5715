"""Guarantees for clients that insert resource intents: refusals, immediate creation, and idempotence."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from tests.support import crates, loop, pg
from tests.support.crates import Yard, ask

PACK = '{"size": 3}'
KEYED = (
    "INSERT INTO farrier.resource_intents (kind, resource, action, params, idempotency_key)"
    " VALUES ('crate', $1, $2, $3::jsonb, $4) RETURNING id"
)
CALL = "SELECT farrier.resource_intent('crate', $1, $2, $3::jsonb, $4)"


prepared, yard = crates.prepared, crates.yard


# --- refused by the INSERT


INVALID: list[tuple[str | None, str | None, str | None, str, str]] = [
    ("explode", "c-1", "{}", "FR400", "unknown action 'explode' of kind crate"),
    (None, "c-1", "{}", "FR400", "unknown action null"),
    ("create", None, PACK, "FR400", "`resource` is missing"),
    ("create", "c-2", "[]", "FR400", "params must be a JSON object"),
    ("create", "c-2", None, "FR400", "params must be a JSON object"),
    ("create", "c-2", "{}", "FR400", "parameter size is missing"),
    ("create", "c-2", '{"size": "3"}', "FR400", "parameter size must be a whole number"),
    ("create", "c-2", '{"size": 3.5}', "FR400", "parameter size must be a whole number"),
    ("create", "c-2", '{"size": 3.0}', "FR400", "parameter size must be a whole number"),
    ("create", "c-2", '{"size": 0}', "FR400", "parameter size must be 1 or more"),
    ("create", "c-2", '{"size": 101}', "FR400", "parameter size must be 100 or less"),
    ("create", "c-2", '{"size": 3, "slot": 1e30}', "FR400", "parameter slot must be 9223372036854775807 or less"),
    ("create", "c-2", '{"size": 3, "version": 9}', "FR400", "parameter version is unknown; expected: "),
    ("create", "c-2", '{"size": 3, "labels": "a"}', "FR400", "parameter labels must be an array"),
    ("create", "c-2", '{"size": 3, "labels": ["a", 1]}', "FR400", "labels has an element that must be a string"),
    ("create", "c-2", '{"size": 3, "labels": ["a b"]}', "FR400", "labels has an element that is blank or has bl"),
    ("create", "c-2", '{"size": 3, "labels": ["a", "b", "c", "d"]}', "FR400", "labels has more than 3 elements"),
    ("create", "c-2", json.dumps({"size": 3, "site": "x" * 17_000}), "FR400", "16384 are allowed"),
    ("create", "4711", PACK, "FR400", "name '4711' is not valid"),
    ("create", "a b", PACK, "FR400", "name 'a b' is not valid"),
    ("create", "c-1", PACK, "23505", "crate 'c-1' already exists"),
    ("create", "c-2", '{"size": 3, "slot": 9}', "FR409", "9 is not in pool slots, which ranges from 1 to 4"),
    ("create", "c-2", '{"size": 3, "slot": 1}', "FR409", "1 of pool slots is taken by crate 1"),
    ("create", "c-2", '{"size": 3, "labels": ["poison"]}', "23514", "crates"),
    ("delete", None, "{}", "FR400", "`resource` is missing"),
    ("delete", "c-9", "{}", "FR404", "no crate is named 'c-9'"),
    ("delete", "99", "{}", "FR404", "no crate is named '99'"),
    ("delete", "c-1", '{"now": true}', "FR400", "parameter now is unknown; expected: none"),
]


async def test_an_invalid_intent_is_refused_by_its_insert_and_leaves_nothing(yard: Yard) -> None:
    await yard.create("c-1")
    async with yard.db.connect() as conn:
        for action, crate, params, sqlstate, told in INVALID:
            with pytest.raises(pg.PostgresError) as refused:
                await ask(conn, action, crate, params)
            assert told in str(refused.value)
            assert refused.value.sqlstate == sqlstate, told
            assert await conn.fetchval("SELECT count(*) FROM farrier.resource_intents") == 1
            assert await conn.fetchval("SELECT count(*) FROM farrier_crates.crates") == 1


async def test_an_unknown_kind_is_refused_with_a_list_of_the_known_kinds(yard: Yard) -> None:
    with pytest.raises(pg.PostgresError, match="unknown kind 'barrel'") as refused:
        await yard.pool.execute(
            "INSERT INTO farrier.resource_intents (kind, resource, action) VALUES ('barrel', 'b-1', 'delete')"
        )
    assert refused.value.sqlstate == "FR400"
    assert "crate" in (refused.value.hint or "")


async def test_an_ended_resource_takes_no_intents_and_its_name_is_free_again(yard: Yard) -> None:
    first = await yard.create()
    for state in ("packed", "emptying/unpack", "gone"):
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1 WHERE id = $2", state, first)
    with pytest.raises(pg.PostgresError, match=f"crate {first} has ended") as refused:
        await yard.ask("delete", str(first))
    assert refused.value.sqlstate == "FR404"
    second = await yard.create()
    assert second != first
    asked = await yard.intent(await yard.ask("delete", "c-1"))
    assert asked["resource_id"] == second


# --- answered at once, or by the handler


async def test_create_makes_the_row_enqueues_it_and_is_answered_in_the_same_insert(yard: Yard) -> None:
    (asked,) = await yard.pool.fetch(
        KEYED + ", status, resource_id, answered_at",
        "c-1",
        "create",
        '{"size": 3, "labels": ["a", "b"], "site": "s"}',
        None,
    )
    assert asked["status"] == "accepted"
    assert asked["answered_at"] is not None
    made = await yard.crate(asked["resource_id"])
    assert (made["name"], made["size"], made["labels"], made["site"], made["slot"]) == ("c-1", 3, ["a", "b"], "s", 1)
    assert (made["state"], made["version"], made["ended_at"]) == ("packing", 1, None)
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'crate'") == 1


async def test_an_answer_that_a_client_inserts_with_its_intent_is_ignored(yard: Yard) -> None:
    await yard.create()
    (asked,) = await yard.pool.fetch(
        "INSERT INTO farrier.resource_intents (kind, resource, resource_id, action, status, reason, answered_at)"
        " VALUES ('crate', 'c-1', 77, 'delete', 'accepted', 'x', '2020-01-01') RETURNING *"
    )
    assert (asked["status"], asked["reason"], asked["answered_at"]) == ("pending", None, None)
    assert asked["resource_id"] != 77


async def test_the_handler_answers_other_intents_and_listeners_are_notified(yard: Yard) -> None:
    made = await yard.create()
    told: list[str] = []
    async with yard.db.connect() as listener:
        await listener.add_listener("farrier_resource_intent_answered", lambda *message: told.append(message[-1]))
        async with yard.running():
            await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", made)
            update = await yard.ask("update", "c-1", '{"labels": ["a", "b"]}')
            await yard.db.until("SELECT status <> 'pending' FROM farrier.resource_intents WHERE id = $1", update)
            yard.hand.hold()
            delete = await yard.ask("delete", str(made))
            await yard.db.until("SELECT state = 'emptying/unpack' FROM farrier_crates.crates WHERE id = $1", made)
            with anyio.fail_after(loop.PATIENCE):
                await yard.hand.begun.wait()
            late = await yard.ask("update", "c-1", '{"labels": ["c"]}')
            yard.hand.free.set()
            await yard.db.until("SELECT status <> 'pending' FROM farrier.resource_intents WHERE id = $1", late)
        with anyio.fail_after(loop.PATIENCE):
            while len(told) < 3:
                await listener.fetchval("SELECT 1")
    answered = [await yard.intent(id_) for id_ in (update, delete, late)]
    assert [(a["status"], a["reason"]) for a in answered] == [
        ("accepted", "labelled"),
        ("accepted", None),
        ("rejected", answered[2]["reason"]),
    ]
    assert all(a["answered_at"] is not None for a in answered)
    assert set(told) == {""}, "the payload is empty, so that PostgreSQL merges equal notifications"
    assert (await yard.crate(made))["labels"] == ["a", "b"]


async def test_an_answer_is_final(yard: Yard) -> None:
    made = await yard.create()
    asked = await yard.ask("delete")
    write = json.dumps(
        {
            "kind": [{"run": made, "kind": "crate"}],
            "runs": [{"run": made, "version": 1}],
            "answers": [{"run": made, "request": asked, "accepted": True, "reason": ""}],
        }
    )
    await yard.pool.fetch("SELECT * FROM farrier.write_resources($1::jsonb)", write)
    again = write.replace('"accepted": true', '"accepted": false')
    await yard.pool.fetch("SELECT * FROM farrier.write_resources($1::jsonb)", again)
    assert (await yard.intent(asked))["status"] == "accepted"


# --- once only


async def test_a_repeated_call_with_the_same_key_returns_the_first_intent(yard: Yard) -> None:
    create = await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-1")
    assert await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-1") == create
    delete = await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2")
    assert await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2") == delete
    assert await yard.pool.fetchval(CALL, "1", "delete", "{}", "k-2") == delete
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier.resource_intents") == 2


@pytest.mark.parametrize(("action", "params"), [("create", '{"size": 4}'), ("delete", "{}")])
async def test_a_used_key_with_other_content_is_refused(yard: Yard, action: str, params: str) -> None:
    first = await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-1")
    with pytest.raises(pg.PostgresError, match=f"belongs to intent {first}, which requests create") as refused:
        await yard.pool.fetchval(CALL, "c-1", action, params, "k-1")
    assert refused.value.sqlstate == "FR400"


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
@pytest.mark.parametrize("key", ["k-2", None])
async def test_a_taken_name_is_refused_at_every_isolation_level_under_another_key_or_none(
    yard: Yard, isolation: Any, key: str | None
) -> None:
    await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-1")
    async with yard.pool.acquire() as conn, conn.transaction(isolation=isolation):
        with pytest.raises(pg.PostgresError, match="crate 'c-1' already exists") as refused:
            await conn.fetchval(CALL, "c-1", "create", PACK, key)
        assert refused.value.sqlstate == "23505"


async def test_a_key_of_an_ended_resource_is_free_for_another_action_of_the_next(yard: Yard) -> None:
    await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-1")
    delete = await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2")
    await yard.pool.execute("UPDATE farrier_crates.crates SET ended_at = farrier.now()")
    assert await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2") == delete
    assert await yard.pool.fetchval(CALL, "c-1", "create", PACK, "k-2") != delete


async def test_a_plain_insert_with_a_used_key_is_refused_and_names_the_first_intent(yard: Yard) -> None:
    first = await yard.pool.fetchval(KEYED, "c-1", "create", PACK, "k-1")
    with pytest.raises(
        pg.PostgresError, match=f"already has an intent with idempotency key 'k-1': intent {first}"
    ) as no:
        await yard.pool.fetchval(KEYED, "c-1", "create", PACK, "k-1")
    assert no.value.sqlstate == "23505"


async def test_a_parameter_that_a_create_omits_gets_the_default_of_its_column(yard: Yard) -> None:
    await yard.pool.execute("ALTER TABLE farrier_crates.crates ALTER labels SET DEFAULT '{loose}'")
    made = await yard.create()
    assert crates.Pack(size=3).labels == ()
    assert (await yard.crate(made))["labels"] == ["loose"]


@pytest.mark.parametrize("keys", [("k-1", "k-1"), ("k-1", "k-2")])
async def test_of_two_creations_of_a_name_at_once_one_is_made(yard: Yard, keys: tuple[str, str]) -> None:
    outcomes: list[int | str] = []

    async def second() -> None:
        try:
            outcomes.append(await yard.pool.fetchval(CALL, "c-1", "create", PACK, keys[1]))
        except pg.PostgresError as error:
            outcomes.append(str(error))

    async with yard.db.connect() as conn:
        transaction = conn.transaction()
        await transaction.start()
        first = await conn.fetchval(CALL, "c-1", "create", PACK, keys[0])
        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await yard.db.until(
                "SELECT count(*) > 0 FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            await transaction.commit()
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier_crates.crates") == 1
    if keys[0] == keys[1]:
        assert outcomes == [first]
    else:
        assert "crate 'c-1' already exists" in str(outcomes[0])


@pytest.mark.parametrize(
    ("bounds", "params"), [((1, 4), '{"size": 3, "slot": 2}'), ((1, 1), PACK)], ids=["the number", "the last number"]
)
async def test_a_call_repeated_before_the_first_is_committed_returns_the_same_intent(
    yard: Yard, bounds: tuple[int, int], params: str
) -> None:
    """The first call has already taken the number that the second call requests."""
    await yard.pool.execute("SELECT farrier.set_pool('slots', $1, $2)", *bounds)
    found: list[int] = []

    async def again() -> None:
        found.append(await yard.pool.fetchval(CALL, "c-1", "create", params, "k-1"))

    async with yard.db.connect() as conn:
        transaction = conn.transaction()
        await transaction.start()
        first = await conn.fetchval(CALL, "c-1", "create", params, "k-1")
        async with anyio.create_task_group() as group:
            group.start_soon(again)
            await yard.db.until(
                "SELECT count(*) > 0 FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            await transaction.commit()
    assert found == [first]


@pytest.mark.parametrize("given", ["c-1", "1"])
async def test_a_delete_may_be_repeated_with_its_key_after_the_resource_has_ended(yard: Yard, given: str) -> None:
    await yard.create()
    delete = await yard.pool.fetchval(CALL, given, "delete", "{}", "k-2")
    for state in ("packed", "emptying/unpack", "gone"):
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1", state)
    assert await yard.pool.fetchval(CALL, given, "delete", "{}", "k-2") == delete
    with pytest.raises(pg.PostgresError) as refused:
        await yard.pool.fetchval(CALL, given, "delete", "{}", "k-3")
    assert refused.value.sqlstate == "FR404"


async def test_a_repeated_delete_does_not_end_a_later_resource_of_the_same_name(yard: Yard) -> None:
    await yard.create()
    delete = await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2")
    for state in ("packed", "emptying/unpack", "gone"):
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1", state)
    await yard.create()
    assert await yard.pool.fetchval(CALL, "c-1", "delete", "{}", "k-2") == delete
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier.resource_intents WHERE action = 'delete'") == 1


@pytest.mark.parametrize("column", ["idempotency_key", "requested_by"])
async def test_key_and_client_of_an_intent_have_1_to_255_characters(yard: Yard, column: str) -> None:
    text = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n"
    insert = (
        f"INSERT INTO farrier.resource_intents (kind, resource, action, params, {column})"
        f" SELECT 'crate', 'c-1', 'create', $1::jsonb, left(({text}), $2)"
    )
    for length in (0, 256, 9600):
        with pytest.raises(pg.PostgresError, match=f"{column} must have 1 to 255 characters") as refused:
            await yard.pool.execute(insert, PACK, length)
        assert refused.value.sqlstate == "FR400"
    await yard.pool.execute(insert, PACK, 255)


async def test_a_number_out_of_range_of_its_column_is_refused_with_a_message(yard: Yard) -> None:
    with pytest.raises(pg.PostgresError, match=r"create: .*99999999999.* out of range") as refused:
        await yard.ask("create", "c-1", '{"size": 3, "slot": 99999999999}')
    assert refused.value.sqlstate == "FR400"


@pytest.mark.parametrize(
    ("table", "answer", "columns"),
    [
        (
            "resource_intents",
            """farrier.write_resources(format('{"kind": [{"kind": "network_segment"}], "runs": [],
               "answers": [{"run": 1, "request": %s, "accepted": true}]}', $1::bigint)::jsonb)""",
            "(kind, resource, resource_id, action) SELECT 'network_segment', '1', 1, 'delete'",
        ),
        (
            "intents",
            """farrier.answer_intents(format('[{"intent": %s, "status": "accepted"}]', $1::bigint)::jsonb)""",
            "(node, node_id, action) SELECT 1, 1, 'drain'",
        ),
    ],
)
async def test_an_answer_is_found_by_its_id_among_any_number_of_pending_intents(
    every_db: pg.Database, table: str, answer: str, columns: str
) -> None:
    """The statement was planned when the table was almost empty, and the table was not analyzed since."""
    read = f"SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = '{table}'"
    ask = f"INSERT INTO farrier.{table} {columns} FROM generate_series(1, $1)"
    async with every_db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(ask, 1)
        await conn.execute(f"VACUUM ANALYZE farrier.{table}")
        for _ in range(10):
            await conn.execute(f"SELECT {answer}", 1)
        await conn.execute(ask, 3000)
        async with conn.transaction():
            before = await conn.fetchval(read)
            await conn.execute(f"SELECT {answer}", 2000)
            assert await conn.fetchval(read) - before <= 2
        accepted = await conn.fetch(f"SELECT id FROM farrier.{table} WHERE status = 'accepted' ORDER BY id")
        assert [record["id"] for record in accepted] == [1, 2000]
