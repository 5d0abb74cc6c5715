"""A system behind a BMC, and a MAC address, belong to one node, in every spelling and in every order of claims."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from farrier.io.connections import refusals
from farrier.io.connections.pool import Connection
from tests.support import pg
from tests.support import site as sites
from tests.support.site import MINUTE, Site

REGISTER = "SELECT farrier.register_node($1, bmc_address => $2, macs => $3::text[])"
SPAN = "SELECT farrier.bmc_span_of($1)::text"


async def register(conn: Connection, name: str, address: str | None, macs: list[str] | None = None) -> None:
    await conn.execute(REGISTER, name, address, macs or [])


async def refusal(conn: Connection, name: str, address: str | None, macs: list[str] | None = None) -> str:
    with pytest.raises(pg.PostgresError) as refused:
        await register(conn, name, address, macs)
    assert refused.value.sqlstate == "23505"
    return str(refused.value).partition("\n")[0]


# --- spelling


# Pairs of spellings of the same address.
SPELLINGS = {
    "case of the host": ("https://bmc-1.example", "https://BMC-1.Example"),
    "case of the scheme": ("https://bmc-1.example", "HTTPS://bmc-1.example"),
    "without a scheme": ("https://bmc-1.example", "bmc-1.example"),
    "default port": ("https://bmc-1.example", "https://bmc-1.example:443"),
    "default port with a zero": ("https://bmc-1.example", "bmc-1.example:0443"),
    "slash at the end": ("https://bmc-1.example", "https://bmc-1.example/"),
    "dot at the end": ("https://bmc-1.example", "https://bmc-1.example."),
    "query and fragment": ("https://bmc-1.example", "https://bmc-1.example?x#y"),
    "another port": ("10.0.0.1:8443", "https://10.0.0.1:8443/"),
    "IPv6 without brackets": ("https://[2001:DB8:0::1]", "2001:db8::1"),
    "IPv6 with zeros": ("https://[2001:db8::1]:443/", "[2001:db8:0:0::0001]"),
    "IPv4 in IPv6": ("https://[::ffff:10.0.0.1]", "10.0.0.1"),
    "with a path": ("https://b/redfish/v1/Systems/1", "B:443/redfish/v1/Systems/1/"),
}


async def test_one_address_is_known_in_every_spelling(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        for what, (one, other) in SPELLINGS.items():
            for first, second in ((one, other), (other, one)):
                await register(conn, "gpu-1", first)
                text = await refusal(conn, "gpu-2", second)
                assert text == f"the BMC {second} already belongs to node gpu-1", what
                await conn.execute("TRUNCATE farrier.nodes CASCADE")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://bmc-1.example", "https://bmc-2.example"),
        ("https://bmc-1.example", "https://bmc-1.example.org"),
        ("https://bmc-1.example", "https://bmc-1.example:8443"),
        ("https://bmc-1.example:844", "https://bmc-1.example:8443"),
        ("https://bmc-1.example/redfish/v1/Systems/1", "https://bmc-1.example/redfish/v1/Systems/2"),
        ("https://bmc-1.example/redfish/v1/Systems/1", "https://bmc-1.example/redfish/v1/Systems/10"),
        ("https://bmc-1.example/redfish/v1/Systems/a", "https://bmc-1.example/redfish/v1/Systems/A"),
        ("https://[2001:db8::1]", "https://[2001:db8::1:443]"),
    ],
)
async def test_different_addresses_are_different_bmcs(every_db: pg.Database, one: str, other: str) -> None:
    async with every_db.connect() as conn:
        await register(conn, "gpu-1", one)
        await register(conn, "gpu-2", other)


async def test_an_invalid_address_that_is_stored_already_breaks_no_commit(every_db: pg.Database) -> None:
    """A commit accepts such an address; the verification of its node reports the error."""
    async with every_db.connect() as conn:
        await register(conn, "gpu-1", None)
        for address in ("[", "]:5", "::::", "[fe80::1%eth0]", "https://", "/", "@", ":", "a:b:c", "#", "?"):
            await conn.execute("UPDATE farrier.nodes SET bmc_address = $1", address)
            assert await conn.fetchval(SPAN, address), address


# --- a system and its BMC


async def test_systems_behind_one_bmc_are_distinguished_by_their_paths(site: Site) -> None:
    bmc = "https://twin.example/redfish/v1/Systems"
    first = await site.register("gpu-1", bmc_address=f"{bmc}/1", bmc_credential="env:BMC")
    second = await site.register("gpu-2", bmc_address=f"{bmc}/2", bmc_credential="env:BMC")
    for machine in (first, second):
        assert (await machine.look())["management"] == "manageable"
    assert {call.system_path for call in site.bmc.calls} == {"/redfish/v1/Systems/1", "/redfish/v1/Systems/2"}


async def test_an_address_without_a_path_is_the_whole_bmc(site: Site) -> None:
    """The system behind the address is discovered only later, and may be the system that the other node names."""
    part, whole = "https://twin.example/redfish/v1/Systems/1", "https://Twin.example:443"
    await site.register("gpu-1", bmc_address=part)
    assert "already belongs to node gpu-1" in await refusal(site.conn, "gpu-2", whole)
    await site.register("gpu-3", bmc_address="https://other.example")
    assert "already belongs to node gpu-3" in await refusal(
        site.conn, "gpu-4", "https://other.example/redfish/v1/Systems/1"
    )


async def test_a_node_that_names_its_system_leaves_the_other_systems_of_its_bmc_free(site: Site) -> None:
    whole = "https://twin.example"
    first = await site.register("gpu-1", bmc_address=whole, bmc_credential="env:BMC")
    second = await site.register("gpu-2")
    path = f"{whole}/redfish/v1/Systems"
    refused = await second.ask("set_bmc", address=f"{path}/2", credential="env:BMC")
    assert (refused.status, refused.reason) == ("rejected", f"the BMC {path}/2 already belongs to node gpu-1")
    await first.asked("set_bmc", address=f"{path}/1")
    await second.asked("set_bmc", address=f"{path}/2", credential="env:BMC")
    assert (await second.look())["management"] == "manageable"


# --- intents


async def test_set_bmc_is_refused_with_the_other_nodes_name_in_any_spelling(site: Site) -> None:
    await site.register("gpu-1", bmc_address="https://bmc-1.example")
    other = await site.register("gpu-2")
    for spelled in ("BMC-1.example:443/", "https://bmc-1.example/redfish/v1/Systems/1"):
        answer = await other.ask("set_bmc", address=spelled)
        assert (answer.status, answer.reason) == ("rejected", f"the BMC {spelled} already belongs to node gpu-1")
    assert (await other.look())["bmc_address"] is None


async def test_a_node_may_spell_its_own_address_in_another_way(site: Site) -> None:
    machine = await site.register("gpu-1", bmc_address="https://bmc-1.example", bmc_credential="env:BMC")
    await machine.asked("set_bmc", address="bmc-1.example:443")
    assert (await machine.look())["bmc_address"] == "bmc-1.example:443"


async def test_an_address_is_free_again_when_it_is_changed_cleared_or_its_node_deleted(site: Site) -> None:
    machine = await site.register("gpu-1", bmc_address="https://a.example", bmc_credential="env:BMC")
    await machine.asked("set_bmc", address="https://b.example")
    await register(site.conn, "gpu-2", "https://a.example")
    await machine.asked("clear_bmc")
    gone = await site.register("gpu-3", bmc_address="https://b.example")
    await gone.asked("delete")
    await register(site.conn, "gpu-4", "https://b.example")


async def test_of_two_concurrent_spellings_of_a_bmc_only_one_is_accepted(db: pg.Database) -> None:
    """Neither node's snapshot shows the other's intent: the database refuses one commit, the next run rejects it."""
    async with sites.opened(db, refusals=(1,)) as site:
        machines = [await site.register(), await site.register()]
        addresses = ("https://twin.example", "twin.example:443/redfish/v1/Systems/1")
        async with site.conn.transaction():
            asked = [
                await machine.tell("set_bmc", address=address, credential="env:B")
                for machine, address in zip(machines, addresses, strict=True)
            ]
        await site.settled()
        await site.wait(MINUTE)
        assert sorted([(await site.answer(id_)).status for id_ in asked]) == ["accepted", "rejected"]


# --- registration


@pytest.mark.parametrize("spelled", ["02:00:00:00:00:0A", "02-00-00-00-00-0a", "0200.0000.000a", "02000000000a"])
async def test_a_mac_address_belongs_to_one_node_in_every_spelling(every_db: pg.Database, spelled: str) -> None:
    async with every_db.connect() as conn:
        await register(conn, "gpu-1", None, ["02:00:00:00:00:0a", spelled])
        text = await refusal(conn, "gpu-2", None, ["02:00:00:00:00:01", spelled])
    assert text == "the MAC address 02:00:00:00:00:0a already belongs to node gpu-1"


async def test_a_repeated_registration_is_refused_because_of_its_name(db: pg.Database) -> None:
    async with db.connect() as conn:
        await register(conn, "gpu-1", "https://bmc-1.example", ["02:00:00:00:00:0a"])
        text = await refusal(conn, "gpu-1", "https://bmc-1.example", ["02:00:00:00:00:0a"])
    assert text == "node gpu-1 is already registered"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            ("https://bmc-1.example", []),
            ("BMC-1.example/redfish/v1/Systems/1", []),
            "the BMC BMC-1.example/redfish/v1/Systems/1 already belongs to node gpu-1",
        ),
        (
            (None, ["02:00:00:00:00:01"]),
            (None, ["02-00-00-00-00-01"]),
            "the MAC address 02:00:00:00:00:01 already belongs to node gpu-1",
        ),
    ],
    ids=["bmc", "mac"],
)
async def test_the_second_of_two_concurrent_registrations_is_refused_with_the_first_nodes_name(
    every_db: pg.Database, first: tuple[Any, ...], second: tuple[Any, ...], reason: str
) -> None:
    texts = []

    async def late(conn: Connection) -> None:
        texts.append(await refusal(conn, "gpu-2", *second))

    async with (
        every_db.connect() as one,
        every_db.connect() as other,
        anyio.create_task_group() as tasks,
        one.transaction(),
    ):
        await register(one, "gpu-1", *first)
        tasks.start_soon(late, other)
        await every_db.until_blocked()
    assert texts == [reason]


async def test_an_update_by_hand_cannot_take_another_nodes_bmc(db: pg.Database) -> None:
    """The constraint refuses not only calls of functions but also an UPDATE by hand, with a message for the client."""
    async with db.connect() as conn:
        await register(conn, "gpu-1", "https://a.example")
        await register(conn, "gpu-2", "https://b.example")
        write = partial(conn.execute, "UPDATE farrier.nodes SET bmc_address = $1 WHERE name = 'gpu-2'")
        with pytest.raises(pg.PostgresError) as refused:
            await write("A.example")
        assert "another node has this BMC" in str(refusals.as_refusal(refused.value))
        await write("https://c.example")
        await register(conn, "gpu-3", "https://b.example")
