"""Intent `set`: changes a node's details after its registration, with the same checks, and history records it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.history import HistoryFilter
from farrier.sim.maas import ADMIN, Region, Status
from farrier.sim.maas.records import Machine as Simulated
from tests.support import pg
from tests.support.site import MINUTE, SECOND, Machine, Site, opened

TOLD = """
    SELECT layer, from_value, to_value, cause, reason FROM farrier.history
     WHERE kind = 'node' AND id = $1 AND layer LIKE 'details.%' ORDER BY version, layer
"""


async def details(machine: Machine) -> dict[str, Any]:
    text = await machine.site.conn.fetchval(
        "SELECT farrier.details_of(n)::text FROM farrier.nodes n WHERE id = $1", machine.id
    )
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


async def recorded_changes(machine: Machine) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await machine.site.conn.fetch(TOLD, machine.id)]


async def refused(machine: Machine, **params: Any) -> str:
    with pytest.raises(pg.PostgresError) as refusal:
        await machine.tell("set", **params)
    assert refusal.value.sqlstate == "FR400"
    return str(refusal.value)


async def test_history_names_the_client_the_detail_and_both_values(site: Site) -> None:
    machine = await (await site.register()).asked("set", site="dc-1", macs=["02:00:00:00:00:01"])
    await machine.asked("set", site="dc-2", labels={"rack": "7"}, macs=["02-00-00-00-00-01"])
    said = "set site, macs by an operator", "set site, labels, macs by an operator"
    assert await recorded_changes(machine) == [
        ("details.macs", "[]", '["02:00:00:00:00:01"]', "intent 1", said[0]),
        ("details.site", None, "dc-1", "intent 1", said[0]),
        ("details.labels", "{}", '{"rack": "7"}', "intent 2", said[1]),
        ("details.site", "dc-1", "dc-2", "intent 2", said[1]),
    ]


async def test_the_history_of_a_node_shows_changed_details_among_its_transitions(site: Site) -> None:
    machine = await (await site.register()).asked("set", site="dc-1")
    page = await PostgresQueries(site.pool).history(HistoryFilter(resource=("node", machine.name)))
    (row,) = [past for past in page.changes if past.layer == "details.site"]
    assert (row.source_state, row.target_state) == (None, "dc-1")
    assert (row.cause, row.requested_by) == ("intent 1", "an operator")


async def test_a_value_is_removed_by_name(site: Site) -> None:
    machine = await (await site.register()).asked("set", site="dc-1", model="h200", maas_id="abc123")
    await machine.asked("set", unset=["model", "maas_id"])
    found = await details(machine)
    assert (found["site"], found["model"], found["maas_id"]) == ("dc-1", None, None)
    assert (await recorded_changes(machine))[-1][:3] == ("details.model", "h200", "(none)")
    both = await machine.ask("set", site="dc-2", unset=["site"])
    assert both.status == "rejected" and "both set and unset" in str(both.reason)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"unset": ["labels"]},
            "unset has an element that is 'labels', which cannot be removed; expected one of: site",
        ),
        ({}, "needs at least one of"),
    ],
)
async def test_an_empty_set_intent_is_refused_by_its_insert(site: Site, params: dict[str, Any], said: str) -> None:
    assert said in await refused(await site.register(), **params)


async def test_a_detail_of_another_node_is_refused_with_its_name(site: Site) -> None:
    await site.register("gpu-8", macs=["02:00:00:00:00:08"], maas_id="abc123", site="dc-1")
    machine = await site.register("gpu-9")
    for params in ({"macs": ["02:00:00:00:00:09", "02-00-00-00-00-08"]}, {"maas_id": "abc123", "site": "dc-1"}):
        answer = await machine.ask("set", **params)
        assert answer.status == "rejected" and "gpu-8" in str(answer.reason)
    await machine.asked("set", maas_id="abc123", site="dc-2")  # the same id in another region is another machine
    assert "gpu-8" in str((await machine.ask("set", site="dc-1")).reason)
    assert (await details(machine))["site"] == "dc-2"


async def test_the_same_values_again_change_nothing(site: Site) -> None:
    machine = await (await site.register()).asked("set", site="dc-1", macs=["02:00:00:00:00:01"])
    before = await recorded_changes(machine)
    await machine.asked("set", site="dc-1", macs=["02:00:00:00:00:01"])
    assert await recorded_changes(machine) == before


async def test_a_node_that_becomes_agentless_in_service_is_judged_by_its_bmc(site: Site) -> None:
    machine = await (await site.active()).asked("set", agentless=True)
    assert (await machine.look())["status"] in ("active", "offline")
    await site.wait(10 * MINUTE)  # missing heartbeats do not count for an agentless node
    assert (await machine.look())["status"] == "active"


@pytest.fixture
async def observed(db: pg.Database) -> AsyncIterator[Site]:
    async with opened(db, region=Region()) as made:
        yield made


def deployed(site: Site, name: str) -> Simulated:
    region = site.maas.region
    record = Simulated(
        system_id=region.next_system_id(),
        hostname=name,
        status=Status.DEPLOYED,
        owner=ADMIN.username,
        osystem="ubuntu",
        power_type="redfish",
        power_state="on",
    )
    region.keep(record)
    return record


async def reading(machine: Machine) -> tuple[str, str | None]:
    (row,) = await machine.site.conn.fetch(
        "SELECT system_id, state FROM farrier.node_observations WHERE node_id = $1", machine.id
    )
    return row["system_id"], row["state"]


async def test_the_machine_of_a_new_maas_id_is_read_and_compared(observed: Site) -> None:
    first, second = deployed(observed, "gpu-1"), deployed(observed, "gpu-2")
    machine = await observed.register(maas_id=first.system_id, bootstrap_token="token")
    await (await machine.enroll("token")).beat()
    await observed.wait(10 * SECOND)
    assert await reading(machine) == (first.system_id, "deployed")
    await machine.asked("set", maas_id=second.system_id)
    await observed.wait(10 * SECOND)
    assert await reading(machine) == (second.system_id, "deployed")
    await machine.asked("set", maas_id="zzzzzz")
    for _ in range(12):
        await observed.wait(10 * SECOND)
        await machine.beat()
    assert (await machine.look())["status"] == "quarantined"
    assert await machine.quarantine() == "region/machine_deleted"
