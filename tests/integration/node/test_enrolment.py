"""Enrolment: a lost reply costs no token, and an agent on another machine is refused and noted. If the machine is known
only later, the agent is found out then."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from farrier.io.connections.pool import Connection
from farrier.sim.maas import Nature, Region, Status, components
from farrier.sim.maas.hardware import Hardware
from farrier.sim.maas.records import Machine as SimMachine
from tests.integration.cli.conftest import Prompt
from tests.support import pg, tokens
from tests.support.site import Machine, Site, as_json, opened
from tests.support.web import backend_on, client_of, open_site

ENROLL = "SELECT node, agent_key, refused FROM farrier.enroll_agent($1, $2::jsonb, $3)"
KEY = "a key that the agent made"
ELSEWHERE = {"identity/agent_elsewhere": "quarantine"}
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


async def enroll_together(conn: Connection, *enrolments: tuple[Machine, dict[str, Any]]) -> list[Any]:
    """Enrol these agents in one statement; returns the answers in their order."""
    given = [
        {"place": place, "facts": {}, "token": tokens.named(machine.name), "key_digest": f"{machine.id:064}", **fields}
        for place, (machine, fields) in enumerate(enrolments)
    ]
    rows = await conn.fetch("SELECT * FROM farrier.enroll_agents($1::jsonb)", as_json(given))
    return sorted(rows, key=lambda row: row["place"])


async def test_each_enrolment_of_a_batch_has_its_own_answer(site: Site) -> None:
    """A locked row, a spent token, a copied key and another machine fail and delay no other enrolment."""
    first = await site.register(name="a", bootstrap_token="a")
    await enroll_together(site.conn, (first, {}))
    locked, sound, copied, elsewhere = [await site.register(name=name, bootstrap_token=name) for name in "bcde"]
    await elsewhere.asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await elsewhere.asked("manage")
    spent, another_key = (first, {"key_digest": "f" * 64}), (copied, {"key_digest": f"{first.id:064}"})
    another_machine = (elsewhere, {"facts": {"serial": "SN-9"}})
    async with site.db.connect() as other, other.transaction():
        await other.execute("SELECT FROM farrier.bootstrap_tokens WHERE node_id = $1 FOR UPDATE", locked.id)
        rows = await enroll_together(site.conn, (locked, {}), spent, another_key, another_machine, (sound, {}))
    assert [row["fault"] for row in rows] == ["55P03", "FR403", "FR409", None, None]
    assert [row["node_name"] for row in rows] == [None] * 4 + ["c"]
    assert "was used" in rows[1]["reason"] and "issue_bootstrap" in rows[1]["hint"]
    assert "sn-9 instead of" in rows[3]["refused"]
    await site.settled()
    assert await elsewhere.conditions() == {"identity/enrolment": "note"}
    again = await enroll_together(site.conn, *((machine, {}) for machine in (sound, locked, copied, elsewhere)))
    assert [row["node_name"] for row in again] == ["c", "b", "d", "e"], "no token was lost, nor by a lost reply"
    woken = {row["resource"] for row in await site.conn.fetch("SELECT resource FROM farrier.wakes")}
    assert woken == {locked.id, copied.id, elsewhere.id}, "a repeated call enqueues nothing"


@pytest.fixture
async def region() -> Region:
    return Region()


@pytest.fixture
async def in_maas(db: pg.Database, region: Region) -> AsyncIterator[Site]:
    async with opened(db, region=region) as site:
        yield site


async def of_maas(site: Site, region: Region, *, serial: str, uuid: str) -> Machine:
    """A node whose machine in MAAS was commissioned with this hardware, and read."""
    machine = SimMachine(system_id=region.next_system_id(), hostname="gpu-1", status=Status.READY)
    region.keep(machine)
    region.natures[machine.system_id] = Nature(hardware=Hardware(serial=serial, uuid=uuid))
    components.look(region, machine)
    node = await site.register(maas_id=machine.system_id)
    await site.wait_until(lambda: is_read(node))
    return node


async def is_read(node: Machine) -> bool:
    sql = "SELECT read_at IS NOT NULL FROM farrier.node_observations WHERE node_id = $1"
    read: bool = await node.site.conn.fetchval(sql, node.id)
    return read


UUID = "4c4c4544-0042-4a10-8054-b9c04f4e5a33"
OTHER_UUID = "4c4c4544-0051-3910-8035-c3c04f4d4b32"
SWAPPED = "44454c4c-4200-104a-8054-b9c04f4e5a33"


@pytest.mark.parametrize(
    ("facts", "differs"),
    [
        ({"serial": "TAG78", "uuid": OTHER_UUID}, "serial tag78 instead of tag77 and UUID"),
        ({"serial": "TAG78"}, "serial tag78 instead of tag77, which MAAS reports"),
        ({"uuid": OTHER_UUID}, "UUID"),
        ({"serial": " tag77"}, None),
        ({"serial": "TAG78", "uuid": UUID}, None),
        ({"uuid": SWAPPED}, None),
        ({"serial": "To be filled by O.E.M.", "uuid": "03000200-0400-0500-0006-000700080009"}, None),
        ({}, None),
    ],
    ids=["both", "serial", "UUID", "same serial", "same UUID", "swapped UUID", "placeholders", "no facts"],
)
async def test_an_agent_on_another_machine_than_the_one_in_maas_is_refused_and_noted(
    in_maas: Site, region: Region, facts: dict[str, str], differs: str | None
) -> None:
    machine = await of_maas(in_maas, region, serial="TAG77", uuid=UUID)
    row = await enroll(machine, await token_of(machine), facts=facts)
    await in_maas.settled()
    if differs is None:
        assert (row["node"], row["refused"], await machine.conditions()) == (machine.id, None, {})
    else:
        assert row["node"] is None and differs in row["refused"] and "MAAS" in row["refused"]
        assert await machine.conditions() == {"identity/enrolment": "note"}


async def test_placeholders_in_maas_prove_nothing(in_maas: Site, region: Region) -> None:
    machine = await of_maas(in_maas, region, serial="Default string", uuid="03aa02fc-0414-0538-0106-650700080009")
    row = await enroll(machine, await token_of(machine), facts={"serial": "SN-9", "uuid": OTHER_UUID})
    assert (row["node"], row["refused"]) == (machine.id, None)


async def test_the_facts_of_another_machine_in_maas_end_with_the_machine(in_maas: Site, region: Region) -> None:
    machine = await of_maas(in_maas, region, serial="TAG77", uuid=UUID)
    await machine.asked("set", maas_id="another")
    row = await enroll(machine, await token_of(machine), facts={"serial": "SN-9"})
    assert row["node"] == machine.id


async def with_agent(machine: Machine, **facts: str) -> Machine:
    """The node, whose agent has enrolled with these facts while nothing else was known of the machine."""
    assert (await enroll(machine, await token_of(machine), facts=facts, digest=DIGEST))["node"] == machine.id
    machine.key = KEY
    return await machine.beat()


async def managed(machine: Machine) -> Machine:
    """The node, whose BMC was read for the first time."""
    await machine.asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await machine.asked("manage")
    assert (await machine.look())["management"] == "manageable"
    return await machine.beat()


async def put_facts(machine: Machine, **facts: str) -> None:
    sql = "SELECT farrier.put_facts(decode($1, 'hex'), $2, $3::jsonb)"
    assert await machine.site.conn.fetchval(sql, DIGEST, "0" * 64, as_json(facts)) is None
    await machine.site.settled()


async def test_a_bmc_that_is_read_later_shows_that_the_agent_runs_on_another_machine(site: Site) -> None:
    machine = await with_agent(await site.register(bootstrap_token="first"), serial="SN-9")
    assert (await machine.state())[0] == "active"
    await managed(machine)
    assert ((await machine.state())[0], await machine.conditions()) == ("quarantined", ELSEWHERE)
    said = (await Prompt(FARRIER_DATABASE_DSN=site.db.dsn)("node", "why", machine.name)).out
    assert "serial sn-9 instead of sn-1, which the BMC reports" in " ".join(said.split())
    await put_facts(machine, serial="SN-1")
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_machine_in_maas_that_is_read_later_shows_that_the_agent_runs_on_another(
    in_maas: Site, region: Region
) -> None:
    machine = await of_maas(in_maas, region, serial="", uuid="")
    await with_agent(machine, serial="TAG78")
    assert await machine.conditions() == {}
    (there,) = region.machines.values()
    region.natures[there.system_id] = Nature(hardware=Hardware(serial="TAG77", uuid=UUID))
    components.look(region, there)
    await in_maas.wait_until(lambda: is_elsewhere(machine))


async def is_elsewhere(machine: Machine) -> bool:
    await machine.beat()
    return await machine.conditions() == ELSEWHERE


@pytest.mark.parametrize(
    "facts",
    [{"serial": "sn-1 "}, {"serial": "Default string"}, {"uuid": "03000200-0400-0500-0006-000700080009"}, {}],
    ids=["the same", "placeholder", "UUID that a vendor ships", "no facts"],
)
async def test_facts_that_prove_nothing_do_not_decide_when_the_bmc_is_read_later(
    site: Site, facts: dict[str, str]
) -> None:
    machine = await managed(await with_agent(await site.register(bootstrap_token="first"), **facts))
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_released_difference_of_the_agents_machine_stays_a_note(site: Site) -> None:
    machine = await managed(await with_agent(await site.register(bootstrap_token="first"), serial="SN-9"))
    await machine.asked("release", key="identity/agent_elsewhere", reason="one machine with two serial numbers")
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {"identity/agent_elsewhere": "note"})


async def test_the_facts_of_an_enrolment_are_shown(site: Site) -> None:
    facts = {"serial": "SN-1", "kernel": "6.8"}
    machine = await site.register()
    await enroll(machine, await token_of(machine), facts=facts)
    said = (await Prompt(FARRIER_DATABASE_DSN=site.db.dsn)("node", "show", machine.name)).out
    assert "kernel: 6.8, serial: SN-1" in " ".join(said.split())
    async with client_of(open_site(backend_on(site.pool, site.db.dsn))) as web:
        assert (await web.get(f"/api/v1/nodes/{machine.name}")).json()["node"]["agent_facts"] == facts


async def test_why_names_both_machines_of_a_refused_enrolment(in_maas: Site, region: Region) -> None:
    machine = await of_maas(in_maas, region, serial="TAG77", uuid=UUID)
    await enroll(machine, await token_of(machine), facts={"serial": "TAG78"})
    await in_maas.settled()
    said = (await Prompt(FARRIER_DATABASE_DSN=in_maas.db.dsn)("node", "why", machine.name)).out
    assert "serial tag78 instead of tag77, which MAAS reports" in " ".join(said.split())


async def test_the_wakes_of_an_enrolment_and_of_a_first_heartbeat_notify_nobody(site: Site) -> None:
    machine, heard = await site.register(), list[str]()
    token = await token_of(machine)
    async with site.db.connect() as listening:
        await listening.add_listener("farrier_wake", lambda *heard_now: heard.append(heard_now[-1]))
        await enroll(machine, token, digest=DIGEST)
        await site.conn.execute("SELECT farrier.heartbeat($1, '{}', $2)", machine.name, KEY)
        await site.conn.execute("SELECT farrier.enqueue('node', $1)", machine.id)
        await listening.execute("SELECT")
    assert heard == [f"node:{machine.id}"]
