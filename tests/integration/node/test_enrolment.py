"""Enrolment: a lost reply costs no token, and an agent on another machine is refused and noted."""

from __future__ import annotations

import hashlib
from typing import Any

import asyncpg
import pytest

from farrier.io.queries import PostgresQueries
from tests.support.site import Machine, Site, as_json

ENROLL = "SELECT node, agent_key, refused FROM farrier.enroll_agent($1, $2::jsonb, $3)"
KEY = "a key that the agent made"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()


async def token_of(machine: Machine) -> str:
    token: str = await machine.site.conn.fetchval("SELECT farrier.issue_bootstrap($1)", machine.name)
    return token


async def enroll(
    machine: Machine, token: str, *, facts: dict[str, Any] | None = None, digest: str | None = None
) -> Any:
    return await machine.site.conn.fetchrow(ENROLL, token, as_json(facts or {}), digest)


async def test_the_same_token_with_the_same_digest_succeeds_again(site: Site) -> None:
    machine = await site.register()
    token = await token_of(machine)
    for _ in range(2):
        row = await enroll(machine, token, digest=DIGEST)
        assert (row["node"], row["agent_key"], row["refused"]) == (machine.id, None, None)
    await site.conn.execute("SELECT farrier.heartbeat($1, '{}', $2)", machine.name, KEY)
    for other in ("0" * 64, None):
        with pytest.raises(asyncpg.PostgresError, match="was used") as refusal:
            await enroll(machine, token, digest=other)
        assert refusal.value.sqlstate == "FR403"


async def test_a_malformed_digest_is_refused_and_costs_no_token(site: Site) -> None:
    machine = await site.register()
    token = await token_of(machine)
    for digest in (KEY, DIGEST.upper(), ""):
        with pytest.raises(asyncpg.PostgresError, match="64 lower-case hexadecimal digits") as refusal:
            await enroll(machine, token, digest=digest)
        assert refusal.value.sqlstate == "FR400"
    assert (await enroll(machine, token, digest=DIGEST))["node"] == machine.id


async def test_an_agent_on_another_machine_is_refused_and_noted_and_the_node_stays_in_service(site: Site) -> None:
    machine = await (await site.active()).asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await machine.asked("manage")
    token = await token_of(machine)
    row = await enroll(machine, token, facts={"serial": "SN-9"})
    assert (row["node"], row["agent_key"]) == (None, None)
    assert "sn-9 instead of sn-1" in row["refused"]
    await site.settled()
    assert await machine.conditions() == {"identity/enrolment": "note"}
    assert (await machine.state())[0] == "active", "a token holder cannot take a node out of service"
    row = await enroll(machine, token, facts={"serial": "SN-1"})
    assert row["node"] == machine.id, "the refused enrolment has not spent the token"
    assert await machine.conditions() == {}


async def test_the_facts_of_an_enrolment_are_shown(site: Site) -> None:
    machine = await site.register()
    await enroll(machine, await token_of(machine), facts={"serial": "SN-1", "kernel": "6.8"})
    page = await PostgresQueries(site.pool).node(machine.name)
    assert page.rows[0].agent_facts == {"serial": "SN-1", "kernel": "6.8"}
