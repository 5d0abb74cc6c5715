"""A region's observer on a real database, with the real loop and client: what it reads and which nodes it enqueues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import msgspec
import pytest

from farrier.sim.maas import ADMIN, Broken, Fault, Region, Status
from tests.support import pg
from tests.support import site as sites
from tests.support import woken as wakes_of
from tests.support.loop import PATIENCE
from tests.support.maas_region import Caller, created
from tests.support.site import MINUTE, SECOND, Machine, Site

POLL = timedelta(seconds=5)

_SEEN = "SELECT *, detail::text AS told FROM farrier.node_observations WHERE node_id = $1"
_REGION = "SELECT *, cursor::text AS at FROM farrier.maas_regions"


async def in_region(site: Site, number: int = 1, status: Status = Status.DEPLOYED) -> Machine:
    """A node whose machine is in the region."""
    system_id = await created(Caller(site.maas.region), number)
    stand(site.maas.region, system_id, status)
    return await site.register(maas_id=system_id)


def stand(region: Region, system_id: str, status: Status) -> None:
    """Move a machine of the site to this status, with an event."""
    region.machines[system_id].owner = ADMIN.username
    region.move(region.machines[system_id], status)


async def seen(node: Machine) -> Any:
    return await node.site.conn.fetchrow(_SEEN, node.id)


async def region_row(site: Site) -> Any:
    return await site.conn.fetchrow(_REGION)


async def woken(node: Machine) -> int:
    """How often the node was enqueued."""
    await wakes_of.count(node.site.conn)
    return await wakes_of.times(node.site.conn, "node", node.id)


async def maas_id(node: Machine) -> str:
    found: str = await node.site.conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE id = $1", node.id)
    return found


async def test_the_machine_of_a_new_node_is_read_at_the_next_poll(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    row = await seen(node)
    assert row["state"] == "deployed"
    assert row["stale_since"] is None
    assert row["read_at"] == row["since"]
    assert (await region_row(site))["state"] == "observing"
    assert (await region_row(site))["username"] == ADMIN.username


async def test_a_change_with_an_event_is_read_at_the_next_poll(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    before = await seen(node)
    stand(site.maas.region, await maas_id(node), Status.READY)
    await site.wait(POLL)
    after = await seen(node)
    assert (after["state"], after["stale_since"]) == ("ready", None)
    assert after["since"] == after["read_at"] > before["read_at"]


async def test_the_time_of_a_state_is_its_first_reading_and_later_readings_keep_it(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    first = await seen(node)
    site.maas.region.machines[await maas_id(node)].hostname = "renamed"
    await site.wait(31 * MINUTE)
    again = await seen(node)
    assert again["since"] == first["since"] == first["read_at"] < again["read_at"]
    assert msgspec.json.decode(again["told"])["hostname"] == "renamed"


async def test_an_event_that_is_committed_after_later_ones_is_not_missed(site: Site) -> None:
    late, prompt = await in_region(site, 1), await in_region(site, 2)
    await site.wait(POLL)
    region = site.maas.region
    held = region.events.skip()
    stand(region, await maas_id(prompt), Status.READY)
    await site.wait(POLL)
    newest = region.events.of(await maas_id(prompt))[-1]
    region.machines[await maas_id(late)].status = Status.BROKEN
    region.events.add_late(msgspec.structs.replace(newest, id=held, node=await maas_id(late)))
    await site.wait(POLL)
    assert [(await seen(node))["state"] for node in (late, prompt)] == ["broken", "ready"]


async def test_a_machine_is_recorded_absent_after_a_read_by_its_id(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    region, system_id = site.maas.region, await maas_id(node)
    region.note(region.machines[system_id], "Node changed status")
    region.forget(region.machines[system_id])
    site.maas.observed.requests.clear()
    await site.wait(POLL)
    assert (await seen(node))["state"] == "absent"
    assert ("machine", "absent") in site.maas.observed.requests


async def test_changes_during_an_outage_of_the_region_are_read_after_it(
    site: Site,
) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    before, cursor = await seen(node), (await region_row(site))["at"]
    site.maas.region.faults.add(Fault(status=502, body=b"<html>Bad Gateway</html>", times=None))
    stand(site.maas.region, await maas_id(node), Status.BROKEN)
    await site.wait(POLL)
    failing = await region_row(site)
    assert (failing["state"], failing["failure"], failing["at"]) == ("failing", "upstream", cursor)
    assert "upstream" in failing["last_error"]
    await site.wait(10 * MINUTE)
    assert await seen(node) == before
    assert (await region_row(site))["complete_at"] == failing["complete_at"]
    site.maas.region.faults.clear()
    await site.wait(MINUTE)
    row = await region_row(site)
    assert (row["state"], row["failure"], row["failures"], row["last_error"]) == ("observing", None, 0, None)
    assert (await seen(node))["state"] == "broken"
    assert await site.conn.fetchval(
        "SELECT array_agg(to_value ORDER BY version) FROM farrier.history"
        " WHERE kind = 'maas_region' AND from_value IS NOT NULL"
    ) == ["observing", "failing", "observing"]


async def test_a_failing_region_is_called_once_a_minute_at_most(site: Site) -> None:
    site.maas.region.faults.add(Fault(broken=Broken.GARBLE, times=None))
    for _ in range(6):
        await site.wait(MINUTE)
    site.maas.observed.requests.clear()
    for _ in range(60):
        await site.wait(10 * SECOND)
    assert 9 <= len(site.maas.observed.requests) <= 11


@pytest.mark.parametrize(
    "fault",
    [
        Fault(op="query", body=b'{"events": "' + b"x" * (10 << 20) + b'"}', content_type="application/json"),
        Fault(op="query", broken=Broken.GARBLE),
        Fault(op="query", broken=Broken.TRUNCATE),
        Fault(op="query", status=429, headers={"Retry-After": "20"}),
        Fault(path="*/machines/", broken=Broken.GARBLE),
        Fault(path="*/machines/", broken=Broken.DROP, times=3),
    ],
)
async def test_after_a_bad_response_the_change_is_read_later(site: Site, fault: Fault) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    site.maas.region.faults.add(fault)
    stand(site.maas.region, await maas_id(node), Status.READY)
    await site.wait(POLL)
    await site.wait(MINUTE)
    assert fault.struck
    assert (await seen(node))["state"] == "ready"
    assert (await region_row(site))["state"] == "observing"


async def test_text_that_the_database_cannot_store_does_not_prevent_a_reading(site: Site) -> None:
    node = await in_region(site)
    machine = site.maas.region.machines[await maas_id(node)]
    machine.hostname = machine.error_description = "\0" * 2000
    await site.wait(POLL)
    assert (await seen(node))["state"] == "deployed"


async def test_only_a_changed_reading_enqueues_the_node(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    machine, wakes = site.maas.region.machines[await maas_id(node)], await woken(node)
    for _ in range(3):  # further readings without a change
        site.maas.region.note(machine, "Node changed status")
        machine.error_description += "more"
        await site.wait(POLL)
    assert await woken(node) == wakes
    for number, (name, value) in enumerate(
        [("status", Status.BROKEN), ("owner", "somebody"), ("locked", True), ("power_state", "off"), ("hostname", "x")],
        start=1,
    ):
        setattr(machine, name, value)
        site.maas.region.note(machine, "Node changed status")
        await site.wait(POLL)
        assert await woken(node) == wakes + number, name


async def test_an_event_of_a_machine_without_a_node_causes_no_read(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    stranger = await created(Caller(site.maas.region), 99)
    before = await seen(node)
    stand(site.maas.region, stranger, Status.READY)
    site.maas.observed.requests.clear()
    await site.wait(POLL)
    assert site.maas.observed.operations == ["events"]
    assert await seen(node) == before


async def test_an_idle_region_costs_one_request_a_poll(site: Site) -> None:
    await in_region(site)
    await site.wait(POLL)
    site.maas.observed.requests.clear()
    for _ in range(12):
        await site.wait(POLL + SECOND)
    assert site.maas.observed.operations == ["events"] * 12


async def test_a_read_of_the_region_that_dies_with_its_process_is_repeated(db: pg.Database) -> None:
    region = Region()
    async with sites.opened(db, region=region, crash=True) as site:
        await site.settled()
        node = await in_region(site)
        held = region.faults.add(Fault(path="*/machines/", broken=Broken.HANG))
        await db.advance(POLL)
        site.wake()
        with anyio.fail_after(PATIENCE):
            while not held.struck:
                await anyio.lowlevel.checkpoint()
    await db.advance(16 * SECOND)
    async with sites.opened(db, region=region) as site:
        await site.settled()
        row: Any = await site.conn.fetchrow(_SEEN, node.id)
        assert (row["state"], row["stale_since"]) == ("deployed", None)
        assert (await region_row(site))["state"] == "observing"


async def test_every_machine_is_read_again_after_the_region_was_restored_from_a_backup(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    before = await seen(node)
    await site.conn.execute("UPDATE farrier.maas_regions SET cursor = '{\"newest\": 100000}'")
    await site.wait(POLL)
    assert (await seen(node))["read_at"] > before["read_at"]
    newest = site.maas.region.events.of(None)[-1].id
    assert msgspec.json.decode((await region_row(site))["at"]) == {"newest": newest}


async def test_a_new_stage_gets_a_fresh_reading_of_the_machine(site: Site) -> None:
    node = await in_region(site, status=Status.COMMISSIONING)
    await site.wait(POLL)
    await site.conn.execute(
        """
        UPDATE farrier.node_onboardings SET mode = 'deploy', status = 'running', stage = 'wait_for_ready',
               status_entered_at = farrier.now(), stage_entered_at = farrier.now() WHERE node_id = $1
        """,
        node.id,
    )
    before, wakes = await seen(node), await woken(node)
    await site.wait(POLL)
    assert (await seen(node))["read_at"] > before["read_at"]
    assert await woken(node) > wakes
