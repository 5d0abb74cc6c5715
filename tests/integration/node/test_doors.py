"""Limits on data of clients and agents: larger values are refused with a message, the documented sizes accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

from farrier.errors import MalformedRequest, RefusedByModel
from farrier.io.calls.requests import PostgresRequests
from farrier.io.connections import refusals
from farrier.model.intents import actions
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest, Registration
from farrier.model.node.snapshot import TaskType
from tests.support import pg, tokens
from tests.support.site import FINISH, Site

TOKEN = tokens.named("token")

REGISTER = "SELECT farrier.register_node('gpu-9', labels => $1::jsonb)"
ENROLL = f"SELECT farrier.enroll_agent('{TOKEN}', $1::jsonb)"

# Sends JSON, each time with the same node, agent and task.
Send: TypeAlias = Callable[[str], Awaitable[Any]]


def deep(levels: int) -> str:
    """An object with nested arrays, `levels` in all."""
    return '{"x": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


async def facts(site: Site) -> Send:
    await site.register(bootstrap_token="token")
    return partial(site.conn.execute, ENROLL)


async def health(site: Site) -> Send:
    machine = await site.active()
    beat = "SELECT farrier.heartbeat($1, $2::jsonb, $3)"
    return lambda value: site.conn.execute(beat, machine.name, value, machine.key)


async def result(site: Site) -> Send:
    machine = await (await site.active()).asked("drain")
    lease = await machine.claim(TaskType.DRAIN)
    assert lease is not None
    return lambda value: site.conn.execute(FINISH, machine.name, lease.task, lease.token, machine.key, False, value)


async def refused(act: Any) -> str:
    with pytest.raises(pg.PostgresError) as error:
        await act
    assert error.value.sqlstate == "FR400", error.value
    return str(error.value)


@pytest.mark.parametrize("door", [facts, health, result])
async def test_json_of_64_kib_is_accepted_and_larger_deeper_or_unrepresentable_json_is_refused(
    site: Site, door: Callable[[Site], Awaitable[Send]]
) -> None:
    send = await door(site)
    largest = {"x": "", "n": [10**308, -(10**308), 0.1], "deep": json.loads(deep(63))}
    largest["x"] = "y" * (65_536 - len(json.dumps(largest)))
    for wrong, told in (
        (json.dumps({"x": "y" * 65_536}), "at most"),
        (deep(3000), "nested more than 64 levels deep"),
        (f'{{"x": [{{"y": -{"9" * 5000}}}]}}', "beyond -1e308 or 1e308"),
    ):
        assert told in await refused(send(wrong))
    await send(json.dumps(largest))


@pytest.mark.parametrize(
    "value", ["3", "null", "true", '["3"]', '{"at": "3"}', deep(3000), "9" * 5000], ids=lambda value: value[:12]
)
async def test_a_label_that_is_no_text_is_refused_with_its_key_and_value(site: Site, value: str) -> None:
    given = f'{{"row": "3", "shelf": {value}}}'
    machine = await site.register()
    for statement, *arguments in (
        (REGISTER, given),
        ("SELECT farrier.register_node('gpu-9', details => $1::jsonb)", f'{{"labels": {given}}}'),
        ("SELECT farrier.intent($1, 'set', $2::jsonb, api_version => 2)", machine.name, f'{{"labels": {given}}}'),
    ):
        told = await refused(site.conn.execute(statement, *arguments))
        assert re.search("has the value .* for 'shelf', which must be a string", told) and len(told) < 250, told


async def test_labels_have_at_most_16_kib(site: Site) -> None:
    largest = json.dumps({"x": "y" * (16_384 - len('{"x": ""}'))})
    assert "16384" in await refused(site.conn.execute(REGISTER, largest.replace("x", "xx")))
    await site.conn.execute(REGISTER, largest)


async def test_json_fault_finds_a_fault_at_any_depth_and_place(every_db: pg.Database) -> None:
    check = "SELECT farrier.json_fault($1::jsonb, 65536)"
    objects = '{"a": ' * 65 + "1" + "}" * 65
    mixed = '{"a": [1, ' * 33 + "1" + "]}" * 33
    async with every_db.connect() as conn:
        for fits in (
            deep(64),
            "[" * 64 + "1" + "]" * 64,
            '{"a": ' * 64 + "1" + "}" * 64,
            '"' + "[" * 99 + '"',
            "1e308",
        ):
            assert await conn.fetchval(check, fits) is None, fits
        for faulty in (deep(65), deep(5000), "[" * 65 + "]" * 65, f"[1, {objects}, 2]", mixed, "1e309", "[-1e309]"):
            assert await conn.fetchval(check, faulty) is not None, faulty


async def test_deep_or_huge_params_of_an_intent_are_refused(site: Site) -> None:
    machine = await site.register()
    for params in (deep(3000), '{"reason": ' + deep(3000) + "}", '{"reason": ' + "9" * 5000 + "}"):
        with pytest.raises(pg.PostgresError) as error:
            await site.conn.execute("SELECT farrier.intent($1, 'quarantine', $2::jsonb)", machine.name, params)
        assert error.value.sqlstate == "FR400"


# --- idempotency keys, and values that PostgreSQL itself cannot store


@pytest.mark.parametrize("name", ["idempotency_key", "requested_by"])
async def test_key_and_client_of_an_intent_have_1_to_255_characters(site: Site, name: str) -> None:
    machine = await site.register()
    ask = f"SELECT farrier.intent($1, 'quarantine', '{{\"reason\": \"x\"}}', {name} => $2)"
    await site.conn.execute(ask, machine.name, "ä" * 255)
    for wrong in ("", "k" * 256):
        expected = f"{name} must have 1 to 255 characters, or be null"
        assert await refused(site.conn.execute(ask, machine.name, wrong)) == expected


async def test_resource_intent_inserts_and_refuses_intents_of_nodes_as_intent_does(site: Site) -> None:
    """The same key returns the same intent through both, and both refuse the same calls with the same errors."""
    machine = await site.register()
    reason = '{"reason": "x"}'
    calls: list[tuple[str, str, str, str | None, int | None]] = [
        (machine.name, "quarantine", reason, "k", None),
        (machine.name, "quarantine", '{"reason": "y"}', "k", None),
        (machine.name, "release", "{}", "k", None),
        (machine.name, "fly", "{}", "k-2", None),
        (machine.name, "quarantine", "{}", "k-2", None),
        (machine.name, "quarantine", reason, None, actions.API_MAX + 1),
        ("gpu-9", "quarantine", reason, "k", None),
    ]
    doors = (
        "SELECT farrier.intent($1, $2, $3::jsonb, $4, 'me', $5)",
        "SELECT farrier.resource_intent('node', $1, $2, $3::jsonb, $4, 'me', $5)",
    )

    async def outcome(door: str, call: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            return (await site.conn.fetchval(door, *call),)
        except pg.PostgresError as error:
            return error.sqlstate, str(error), error.hint

    for call in calls:
        of_nodes, of_all = [await outcome(door, call) for door in doors]
        assert of_nodes == of_all, call
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.intents") == 1
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.resource_intents") == 0


async def test_a_value_that_postgresql_cannot_store_is_refused_and_no_outage(site: Site, db: pg.Database) -> None:
    machine = await site.register()
    async with db.pool(size=1) as connections:
        requests = PostgresRequests(connections, db.dsn)
        with pytest.raises(MalformedRequest, match="must have 1 to 255"):
            await requests.ask(IntentRequest(resource=machine.name, action="manage", key="k" * 12_000))
        with pytest.raises(RefusedByModel, match="stack depth"):
            async with refusals.borrowed(connections) as conn:
                await conn.execute("SELECT ($1::text)::jsonb", "[" * 500_000)


# --- addresses and references

GOOD_ADDRESSES = (
    "10.0.0.1",
    "bmc-1.example",
    "bmc-1.example:443",
    "fd00::1",
    "[fd00::1]:8443",
    "https://10.0.0.1",
    "https://[fd00::1]:8443/redfish/v1/Systems/1",
    "https://bmc.example/redfish/v1/Systems/a@b[1]",
    "bücher.example",
)
BAD_ADDRESSES = (
    "",
    " ",
    "https://",
    "https://[::1",
    "https://::1]",
    "https://[zz]",
    "https://[::1]x",
    "[::1",
    "a]b",
    "h\x01ost",
    "https://host/\x7f",
    "host\u0085",
    "10.0.0.1 ",
    "10.0.0.1\n",
    "https://user:pw@10.9.0.1",
    "user@10.9.0.1",
    "https:///redfish",
)
GOOD_REFERENCES = ("file:/run/creds/bmc-1", "env:FARRIER_SECRET_BMC", "systemd:bmc", "vault:farrier/bmc/gpu-1")
BAD_REFERENCES = ("", "hunter2", "admin:hunter2", "file:", "file: x", "FILE:/x", "env:a\x01", "\nenv:x", "env:x\n")
DETAILS = [
    *(("address", text, True) for text in GOOD_ADDRESSES),
    *(("address", text, False) for text in BAD_ADDRESSES),
    *(("credential", text, True) for text in GOOD_REFERENCES),
    *(("credential", text, False) for text in BAD_REFERENCES),
]


async def test_set_bmc_register_node_and_the_model_accept_the_same_bmc_details(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        for number, (detail, text, good) in enumerate(DETAILS):
            given = json.dumps({detail: text})
            asked = ("SELECT farrier.intent('gpu-1', 'set_bmc', $1::jsonb)", given)
            made = (f"SELECT farrier.register_node('node-{number}', bmc_{detail} => $1)", text)
            if good:
                actions.decode(Action.SET_BMC, {detail: text})
                await conn.execute(*asked)
                undone = conn.transaction()  # several of the addresses are those of one BMC
                await undone.start()
                await conn.execute(*made)
                await undone.rollback()
                continue
            with pytest.raises(RefusedByModel):
                actions.decode(Action.SET_BMC, {detail: text})
            for statement in (asked, made):
                assert "without blanks" in await refused(conn.execute(*statement)), text


@pytest.mark.parametrize("given", ["bmc_credential => 'hunter2'", "bmc_address => 'https://admin:hunter2@10.0.0.1'"])
async def test_a_secret_is_neither_stored_nor_repeated(site: Site, given: str) -> None:
    with pytest.raises(pg.PostgresError) as error:
        await site.conn.execute(f"SELECT farrier.register_node('gpu-1', {given})")
    seen = error.value
    assert "hunter2" not in f"{seen} {seen.detail} {seen.hint}"
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.nodes") == 0


# --- a node's other details


async def test_the_longest_details_are_accepted(site: Site) -> None:
    await site.conn.execute(
        "SELECT farrier.register_node('gpu-1', site => repeat('a', 63), model => repeat('ä', 100), macs => NULL)"
    )


async def test_a_machine_of_another_node_is_refused_with_its_name(site: Site, db: pg.Database) -> None:
    await site.conn.execute("SELECT farrier.register_node('gpu-1', site => 'eu-1', maas_id => 'abc')")
    await site.conn.execute("SELECT farrier.register_node('gpu-2', site => 'eu-2', maas_id => 'abc')")
    async with db.pool(size=1) as connections:
        with pytest.raises(RefusedByModel, match="another node of this site has the same MAAS ID: gpu-1"):
            await PostgresRequests(connections, db.dsn).register([Registration(name="x", site="eu-1", maas_id="abc")])


async def test_enqueue_without_a_kind_and_an_id_is_refused(site: Site) -> None:
    assert await refused(site.conn.execute("SELECT farrier.enqueue(NULL, NULL)")) == (
        "expected a kind and an ID; got null and null"
    )
