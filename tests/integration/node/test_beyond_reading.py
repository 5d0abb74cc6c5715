"""Values that Python cannot decode, stored past the checks of the database: each affects only what needs the value."""

from __future__ import annotations

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.machine.bmc import BmcReading, BmcTarget
from farrier.model.node.snapshot import TaskType
from farrier.model.views.nodes import NodeFilter
from farrier.services.bmc import address as addresses
from tests.support import pg
from tests.support.fake_bmc import READING
from tests.support.site import HOUR, Machine, Site

DEEP = '{"x": ' + "[" * 3000 + "]" * 3000 + "}"
LONG = '{"x": ' + "9" * 5000 + "}"
BEYOND = pytest.mark.parametrize("value", [DEEP, LONG], ids=["deep", "long"])


async def store(machine: Machine, table: str, column: str, value: str) -> None:
    key = "id" if table == "nodes" else "node_id"
    await machine.site.conn.execute(
        f"UPDATE farrier.{table} SET {column} = $1::jsonb WHERE {key} = $2", value, machine.id
    )


@BEYOND
async def test_a_node_with_undecodable_labels_still_runs(site: Site, value: str) -> None:
    machine, other = await site.register("gpu-1"), await site.register("gpu-2")
    await store(machine, "nodes", "labels", value)
    for each in (machine, other):
        assert (await each.ask("onboard", mode="manual")).status == "accepted"


@BEYOND
async def test_every_node_is_listed_and_shown_although_one_has_undecodable_labels(
    site: Site, db: pg.Database, value: str
) -> None:
    machine = await site.register("gpu-1")
    await site.register("gpu-2")
    await store(machine, "nodes", "labels", value)
    async with db.pool(size=1) as connections:
        queries = PostgresQueries(connections)
        listed = (await queries.inventory(NodeFilter())).rows
        (shown,) = (await queries.node("gpu-1")).rows
    assert [line.name for line in listed] == ["gpu-1", "gpu-2"]
    assert "to be read" in str(shown.labels["x"]) and shown.labels == listed[0].labels


@BEYOND
async def test_an_undecodable_task_result_stops_neither_cancel_nor_the_list_of_tasks(
    site: Site, db: pg.Database, value: str
) -> None:
    machine = await (await site.active()).asked("drain")
    await store(machine, "node_tasks", "result", value)
    await machine.finish(TaskType.DRAIN, succeeded=False)
    await store(machine, "node_tasks", "result", value)
    assert (await machine.ask("cancel")).status == "accepted"
    async with db.pool(size=1) as connections:
        assert (await PostgresQueries(connections).tasks(machine.name)).rows


async def test_a_node_with_an_undecodable_health_report_still_runs(site: Site) -> None:
    machine = await site.active()
    await store(machine, "node_agents", "health", DEEP)
    assert (await machine.ask("drain")).status == "accepted"


def dialled(target: BmcTarget) -> BmcReading:
    """Parse the address, as the client does first, and return a reading."""
    addresses.parse(target.address)
    return READING


@pytest.mark.parametrize("address", ["https://[::1", "https://[zz]", "https://a\u2100b.example", "h\x01ost"])
async def test_an_invalid_bmc_address_is_reported_and_not_retried_until_it_changes(site: Site, address: str) -> None:
    site.bmc.script = dialled
    machine = await site.register(bmc_address="https://10.0.0.1")
    await site.conn.execute("UPDATE farrier.nodes SET bmc_address = $1 WHERE id = $2", address, machine.id)
    await machine.asked("set_bmc", credential="env:BMC")
    await site.wait(HOUR)  # meanwhile the credential's version is recorded, and the BMC is tried once more
    moves = await machine.moves()
    await site.wait(HOUR)
    known = await machine.bmc()
    assert (known["failure"], (await machine.look())["management"]) == ("incomplete", "enroll")
    assert "neither https://host[:port] nor host[:port]" in known["last_error"]
    assert await machine.moves() == moves
    await machine.asked("set_bmc", address="https://10.0.0.2")
    assert (await machine.look())["management"] == "manageable"
