"""A machine belongs to one node, under all its names and addresses, and for every writer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias
from uuid import uuid4

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from farrier.io.calls.identities import Duplicate, duplicates
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from farrier.model.machine import identity
from farrier.model.machine.bmc import BmcReading, BmcTarget, PowerState
from farrier.model.machine.identity import Identity, Same
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import READING, reading
from tests.support.identities import OWN_SERIALS, OWN_UUIDS, SHIPPED_MACS, SHIPPED_SERIALS, SHIPPED_UUIDS
from tests.support.loop import PATIENCE
from tests.support.site import MINUTE, SECOND, Machine, Site

UUID = "38b7a8c4-0001-11ec-9621-0242ac130002"
SWAPPED = "c4a8b738-0100-ec11-9621-0242ac130002"
FILLED_UUID = "03000200-0400-0500-0006-000700080009"
BMC = {"bmc_credential": "env:BMC"}

RECORD = """
    INSERT INTO farrier.nodes (name, status, management, bmc)
    VALUES ($1, 'enrolling', 'unmanaged', $2::jsonb) RETURNING id
"""

Given: TypeAlias = dict[str, Any]


def answers(**machines: BmcReading) -> Callable[[BmcTarget], BmcReading]:
    return lambda target: machines[target.address.rpartition("/")[2].replace(".", "_")]


def same_everywhere(site: Site, **fields: Any) -> None:
    """The same machine responds at every address."""

    def script(_target: BmcTarget) -> BmcReading:
        return replace(READING, power=site.bmc.power, **fields)

    site.bmc.script = site.bmc.read_script = script


async def two_names(site: Site, **details: Any) -> tuple[Machine, Machine]:
    """A node whose machine is recorded, and another node that reaches the same machine by the BMC's name."""
    same_everywhere(site)
    first = await site.with_bmc("gpu-1")
    second = await site.register("gpu-2", bmc_address="https://bmc-1.example", **BMC | details)
    return first, second


async def known(machine: Machine) -> tuple[str, str | None]:
    row = await machine.look()
    return row["management"], (await machine.bmc()).get("failure")


# --- verifying and adopting


async def test_a_machine_of_another_node_is_not_verified_and_the_error_names_that_node(site: Site) -> None:
    first, second = await two_names(site)
    assert await known(first) == ("manageable", None)
    assert await known(second) == ("enroll", "identity_taken")
    bmc = await second.bmc()
    assert bmc["last_error"] == "this machine belongs to node gpu-1: it has the same UUID"
    assert "serial" not in bmc, "nothing of another node's machine is recorded"
    dialled = len(site.bmc.calls)
    await site.wait(60 * MINUTE)
    assert [call.address for call in site.bmc.calls[dialled:]] == [], "the node waits for an edit"


async def test_an_adoption_of_a_machine_that_another_node_has_stops_and_quarantines(site: Site) -> None:
    site.bmc.script = lambda target: replace(READING, serial=f"SN-{target.address}", uuid=None)
    await site.with_bmc("gpu-1")
    second = await site.with_bmc("gpu-2", agentless=True, macs=["a4:bb:6d:00:00:01"])
    # The first node's machine is now behind the second's address, and the second has no serial number on record.
    await second.site.conn.execute("UPDATE farrier.nodes SET bmc = bmc - 'serial' WHERE id = $1", second.id)
    site.bmc.script = lambda _target: replace(
        READING, serial="SN-https://10.0.0.1", uuid=None, macs=("a4:bb:6d:00:00:01",)
    )
    await second.ask("adopt")
    assert await known(second) == ("adopt_failed", "identity_taken")
    row = await second.look()
    assert (row["status"], row["failure_class"]) == ("quarantined", "identity_taken")
    assert "gpu-1" in (await second.bmc())["last_error"]


async def test_a_deployment_of_a_machine_that_another_node_has_stops(site: Site) -> None:
    await two_names(site, auto_manage=False)
    second = Machine(site, "gpu-2", 2)
    await second.asked("onboard", mode="adopt")
    row = await second.look()
    assert (row["status"], row["failure_class"]) == ("quarantined", "identity_taken")


async def test_power_of_a_machine_is_switched_only_by_the_node_that_has_it(site: Site) -> None:
    first, second = await two_names(site)
    assert (await second.ask("set_power", power="off")).status == "rejected"
    assert site.bmc.sent == []
    await first.asked("set_power", power="off")
    assert site.bmc.power is PowerState.OFF


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"uuid": UUID}, {"uuid": SWAPPED.upper(), "serial": "X9"}, id="UUID in the other byte order"),
        pytest.param({"serial": "abc1"}, {"serial": " ABC1 "}, id="serial"),
        pytest.param(
            {"serial": "A1", "manufacturer": "Dell Inc."},
            {"serial": "a1", "manufacturer": "DELL INC"},
            id="serial and manufacturer",
        ),
        pytest.param({"macs": ("a4:bb:6d:00:00:01",)}, {"macs": ("a4:bb:6d:00:00:01",)}, id="MACs, for want of both"),
    ],
)
async def test_a_machine_is_recognised_in_every_spelling(site: Site, one: Given, other: Given) -> None:
    bare = replace(READING, serial=None, uuid=None)
    site.bmc.script = answers(**{"10_0_0_1": replace(bare, **one), "10_0_0_2": replace(bare, **other)})
    await site.with_bmc()
    assert await known(await site.with_bmc()) == ("enroll", "identity_taken")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"uuid": FILLED_UUID}, {"uuid": FILLED_UUID}, id="a filler of a UUID"),
        pytest.param({"uuid": "0" * 32}, {"uuid": "0" * 32}, id="no UUID"),
        pytest.param({"serial": "To Be Filled By O.E.M."}, {"serial": "To be filled by O.E.M."}, id="a filler"),
        pytest.param({"serial": "000000"}, {"serial": "000000"}, id="zeros"),
        pytest.param(
            {"serial": "A1", "manufacturer": "Dell Inc."},
            {"serial": "A1", "manufacturer": "Supermicro"},
            id="one serial of two makers",
        ),
        pytest.param(
            {"serial": "A1", "macs": ("a4:bb:6d:00:00:01",)},
            {"serial": "A2", "macs": ("a4:bb:6d:00:00:01",)},
            id="a card that moved",
        ),
    ],
)
async def test_placeholder_identities_do_not_make_two_machines_one(site: Site, one: Given, other: Given) -> None:
    bare = replace(READING, serial=None, uuid=None)
    site.bmc.script = answers(**{"10_0_0_1": replace(bare, **one), "10_0_0_2": replace(bare, **other)})
    await site.with_bmc()
    assert await known(await site.with_bmc()) == ("manageable", None)


async def test_a_registered_mac_address_identifies_a_machine_without_serial_and_uuid(site: Site) -> None:
    await site.register("gpu-1", macs=["a4:bb:6d:00:00:01"])
    same_everywhere(site, serial=None, uuid=None, macs=("a4:bb:6d:00:00:01",))
    second = await site.with_bmc("gpu-2")
    assert await known(second) == ("enroll", "identity_taken")
    assert (await second.bmc())["last_error"] == "this machine belongs to node gpu-1: it has the same MAC address"


async def test_of_two_nodes_verified_at_once_one_gets_the_machine_and_the_other_names_it(
    db: pg.Database,
) -> None:
    # Usually both steps read before either commits, and the database refuses one commit. Otherwise the second step
    # reads what the first has committed.
    async with sites.opened(db, refusals=(0, 1)) as site:
        same_everywhere(site)
        site.bmc.hold()
        names = ("gpu-1", "gpu-2")
        machines = [
            await site.register(name, auto_manage=False, bmc_address=f"https://{name}", **BMC) for name in names
        ]
        bystander = await site.active()
        for machine in machines:
            await machine.tell("manage")
        site.wake()
        with anyio.fail_after(PATIENCE):
            while len(site.bmc.calls) < len(machines):
                await anyio.lowlevel.checkpoint()
        site.bmc.let_go()
        await bystander.beat("xid-79")
        await site.wait(31 * SECOND)
        assert sorted([await known(machine) for machine in machines]) == [
            ("enroll", "identity_taken"),
            ("manageable", None),
        ]
        assert (await bystander.state())[0] == "quarantined", "the refused commit did not affect others of its batch"


# --- a machine that moved


@pytest.mark.parametrize("way", ["clear_bmc", "set_bmc", "delete"])
async def test_a_machine_that_a_node_gives_up_is_free_for_another_node(site: Site, way: str) -> None:
    first, second = await two_names(site)
    if way == "set_bmc":
        site.bmc.script = lambda target: reading(target) if target.address == "https://10.0.7.7" else READING
        await first.asked("set_bmc", address="https://10.0.7.7", replace=True)
    else:
        await first.asked(way)
    await second.asked("manage")
    assert await known(second) == ("manageable", None)


async def test_a_board_that_moved_between_two_nodes_is_accepted_the_documented_way(site: Site) -> None:
    first, second = await site.with_bmc("gpu-1"), await site.with_bmc("gpu-2")
    boards = {"https://10.0.0.1": "SN-2", "https://10.0.0.2": "SN-1"}
    site.bmc.script = lambda target: replace(READING, serial=boards[target.address], uuid=None)
    for machine in (first, second):
        await machine.asked("manage")
        assert await known(machine) == ("enroll", "identity_mismatch")
    for machine in (first, second):
        await machine.asked("set_bmc", replace=True)
    assert await known(first) == ("enroll", "identity_taken"), "the second node had this machine until its own intent"
    await first.asked("manage")
    assert [await known(machine) for machine in (first, second)] == [("manageable", None)] * 2
    assert [(await machine.bmc())["serial"] for machine in (first, second)] == ["SN-2", "SN-1"]


# --- the database


async def test_the_database_refuses_a_second_node_with_the_machine_for_every_writer(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("ALTER TABLE farrier.nodes DISABLE TRIGGER begin_resource")
        bmc = msgspec.json.encode({"serial": "SN-1", "manufacturer": "Dell Inc.", "uuid": UUID}).decode()
        await conn.execute(RECORD, "gpu-1", bmc)
        for again in ({"uuid": SWAPPED}, {"serial": "sn-1", "manufacturer": "DELL INC"}):
            with pytest.raises(pg.PostgresError, match="already belongs to node gpu-1") as refused:
                await conn.execute(RECORD, "gpu-2", msgspec.json.encode(again).decode())
            assert refused.value.sqlstate == "23505"


SERIALS = (None, "", "SN-1", " sn-1", "N/A", "0123456789", "1111", "Sn-2")
UUIDS = (None, "nonsense", UUID, SWAPPED, f"{{{UUID.upper()}}}", FILLED_UUID, "f" * 32, UUID[:-1] + "3")


async def test_the_database_knows_which_values_can_be_unique_like_the_model(db: pg.Database) -> None:
    machines = [
        *(Identity(serial=serial) for serial in (*SHIPPED_SERIALS, *OWN_SERIALS)),
        *(Identity(uuid=uuid) for uuid in (*SHIPPED_UUIDS, *OWN_UUIDS, *(str(uuid4()) for _ in range(100)))),
        *(Identity(macs=(mac,)) for mac in (*SHIPPED_MACS, "a4:bb:6d:00:00:01", "AC-1F-6B-8D-2F-10")),
    ]
    async with db.connect() as conn:
        for machine in machines:
            assert bool(await keys(conn, machine)) == machine.is_known, machine


async def test_the_database_distinguishes_machines_like_the_model(db: pg.Database) -> None:
    async with db.connect() as conn:
        for recorded in (Identity(serial="SN-1"), Identity(uuid=UUID)):
            ours = await keys(conn, recorded)
            for serial, uuid in product(SERIALS, UUIDS):
                machine = Identity(serial=serial, uuid=uuid)
                is_same = isinstance(identity.compare(recorded, machine), Same)
                assert bool(ours & await keys(conn, machine)) == is_same, machine


async def keys(conn: Connection, machine: Identity) -> set[tuple[str, str]]:
    query = "SELECT * FROM farrier.identity_keys($1, $2, NULL, to_jsonb($3::text[]))"
    rows = await conn.fetch(query, machine.serial, machine.uuid, list(machine.macs))
    return {(row["kind"], row["value"]) for row in rows}


# --- duplicates from before the database refused them


async def with_duplicates(conn: Connection) -> None:
    """Two nodes that recorded one machine while its serial number counted as a placeholder, which it no longer does."""
    await migrate.migrate(conn, after=catalog.sync)
    async with conn.transaction():
        await conn.execute("UPDATE farrier.constants SET identity_placeholders = '{}'")
        await conn.execute("SET LOCAL session_replication_role = replica")
        for name in ("gpu-1", "gpu-2", "gpu-3"):
            serial = "SN-3" if name == "gpu-3" else "SN-1"
            bmc = {"serial": serial, "power": "on", "system_path": READING.system_path}
            await conn.execute(
                "INSERT INTO farrier.nodes (name, status, management, bmc, bmc_address, bmc_credential, ever_active)"
                " VALUES ($1, 'retired', 'manageable', $2::jsonb, 'https://' || $1, 'env:BMC', true)",
                name,
                msgspec.json.encode(bmc).decode(),
            )
    await migrate.migrate(conn, after=catalog.sync)
    await conn.execute("SELECT farrier.enqueue('node', id) FROM farrier.nodes")


@pytest.fixture
async def old(empty_db: pg.Database) -> pg.Database:
    async with empty_db.connect() as conn:
        await with_duplicates(conn)
        await conn.execute(pg.MOVABLE_CLOCK)
    return empty_db


async def test_older_duplicates_do_not_stop_a_migration_and_are_reported(old: pg.Database) -> None:
    async with old.connect() as conn:
        assert await duplicates(conn) == (Duplicate("serial", ("gpu-1", "gpu-2")),)
        assert await conn.fetchval("SELECT farrier.same_machine(1)") == ["gpu-2"]
        assert await conn.fetchval("SELECT farrier.same_machine(3)") == []


async def test_power_of_older_duplicates_is_not_switched_until_one_node_is_left(old: pg.Database) -> None:
    async with sites.opened(old) as site:
        site.bmc.script = site.bmc.read_script = lambda target: replace(
            READING, serial="SN-3" if "gpu-3" in target.address else "SN-1", uuid=None, power=site.bmc.power
        )
        first, second, third = (Machine(site, f"gpu-{n}", n) for n in (1, 2, 3))
        for one, other in ((first, "gpu-2"), (second, "gpu-1")):
            answer = await one.ask("set_power", power="off")
            assert answer.status == "rejected"
            assert other in str(answer.reason)
        assert site.bmc.sent == []
        await third.asked("set_power", power="off")
        await first.asked("clear_bmc")
        await second.asked("set_power", power="on")
        await first.asked("set_bmc", address="https://gpu-1", credential="env:BMC")
        assert await known(first) == ("enroll", "identity_taken"), "the remaining node has the machine now"


async def test_an_older_duplicate_that_is_verified_again_gets_identity_taken(old: pg.Database) -> None:
    async with sites.opened(old) as site:
        same_everywhere(site, uuid=None)
        second = Machine(site, "gpu-2", 2)
        await second.asked("manage")
        assert await known(second) == ("enroll", "identity_taken")
