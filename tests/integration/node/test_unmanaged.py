"""A node without a BMC rests without error or limit, calls no service, and is shown as unmanaged."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice.explanation import explain
from farrier.model.node import clocks
from farrier.model.node.limits import Limits
from farrier.model.views.nodes import NodeFilter
from tests.support.site import Site


async def test_an_unmanaged_node_rests_without_error_and_no_login_is_tried(site: Site) -> None:
    machine = await site.register()
    for _ in range(3):
        await site.wait(timedelta(hours=10))
    row = await machine.look()
    assert (row["management"], row["bmc"]) == ("unmanaged", "{}")
    assert (site.bmc.logins, site.secrets.looks) == (0, 0)
    assert await machine.path("management") == ["unmanaged"]


async def test_no_limit_runs_for_an_unmanaged_node_and_no_error_is_reported(site: Site) -> None:
    machine = await site.register()
    await site.wait(timedelta(days=400))
    page = await PostgresQueries(site.pool).node(machine.name)
    running = clocks.running(page.rows[0], page.now, Limits())
    assert [clock for clock in running if clock.layer == "management" and clock.limit is not None] == []
    assert explain(page.rows[0], page.now, Limits()).errors == ()


async def test_clear_bmc_of_a_node_without_a_bmc_changes_nothing(site: Site) -> None:
    machine = await site.register()
    assert (await machine.ask("clear_bmc")).status == "accepted"
    assert (await machine.look())["management"] == "unmanaged"


@pytest.mark.parametrize(
    ("details", "management"),
    [
        ({"address": "https://10.0.0.9", "credential": "env:BMC"}, "manageable"),
        ({"address": "https://10.0.0.9"}, "enroll"),
        ({"credential": "env:BMC"}, "enroll"),
    ],
    ids=["both", "address", "credential"],
)
async def test_set_bmc_with_any_detail_moves_the_node_to_enroll(
    site: Site, details: dict[str, str], management: str
) -> None:
    machine = await (await site.register()).asked("set_bmc", **details)
    assert (await machine.look())["management"] == management
    assert (await machine.path("management"))[:2] == ["unmanaged", "enroll"]
    assert bool(site.bmc.logins) == (management == "manageable"), "with only one detail no BMC is called"
    if management == "enroll":
        assert "submit set_bmc with" in ((await machine.ask("manage")).reason or "")


async def test_an_unmanaged_node_can_be_in_service(site: Site) -> None:
    machine = await site.active()
    assert ((await machine.state())[0], (await machine.look())["management"]) == ("active", "unmanaged")


async def test_consumers_see_that_a_node_is_unmanaged(site: Site) -> None:
    """The view for schedulers and the queries behind API and pages show that the node is unmanaged."""
    without, with_one = await site.active(), await site.with_bmc()
    seen = await site.conn.fetch("SELECT name, unmanaged, schedulable FROM farrier.node_inventory ORDER BY id")
    assert [tuple(row) for row in seen] == [(without.name, True, True), (with_one.name, False, False)]
    queries = PostgresQueries(site.pool)
    page = await queries.inventory(NodeFilter(managements=("unmanaged",)))
    assert [node.name for node in page.rows] == [without.name]
