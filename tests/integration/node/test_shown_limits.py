"""The views show services the clock of each layer, its limit, and the texts of the agent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.io.schema import catalog
from farrier.model.advice.explanation import explain
from farrier.model.machine.health import Alert
from farrier.model.node import clocks, sla
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import Layer
from farrier.model.node.limits import Limits
from farrier.model.node.stages import OnboardingStage
from farrier.model.views.nodes import NodeView
from tests.support.site import MINUTE, SECOND, Machine, Site

HOUR = timedelta(hours=1)

ALERTS = [
    {"id": "ecc", "message": "GPU 3: 12 uncorrectable errors", "blocks_scheduling": True},
    {"id": "fan", "message": "fan 2 is slow", "blocks_scheduling": False},
]


async def enrolling(site: Site) -> Machine:
    return await (await site.register()).asked("onboard", mode="manual")


async def offline(site: Site) -> Machine:
    machine = await site.active()
    await site.wait(10 * MINUTE)
    return machine


async def verified(site: Site) -> Machine:
    return await site.with_bmc()


async def never_asked(site: Site) -> Machine:
    return await site.register()


async def draining(site: Site) -> Machine:
    return await (await site.active()).asked("drain", reason="fan replacement")


async def retried(site: Site) -> Machine:
    """A node whose agent does not enrol: the stage waits for its next attempt."""
    machine = await enrolling(site)
    await site.wait(
        sla.stage_deadline(Layer.ONBOARDING, OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT, overrides={}) + SECOND
    )
    assert (await machine.state())[1] == "failed_retryable"
    return machine


async def seen(site: Site, query: str, machine: Machine) -> Any:
    return await site.conn.fetchrow(query, machine.id)


async def seen_by_python(site: Site, machine: Machine) -> dict[str, tuple[timedelta, bool]]:
    """The limit of each clock that has one, by layer, and whether the node is above it, as Python computes them."""
    page = await PostgresQueries(site.pool).node(machine.name)
    running = clocks.running(page.rows[0], page.now, Limits())
    return {
        column(clock, page.rows[0]): (clock.limit, clock.above is not None)
        for clock in running
        if clock.limit is not None
    }


def column(clock: StateClock, node: NodeView) -> str:
    """The prefix of the view's columns for this clock."""
    if clock.state == clocks.END_TO_END:
        return "end_to_end"
    if "/" in clock.state:
        return "stage"
    return "workflow" if node.workflow is not None and clock.layer == node.workflow.kind else clock.layer


async def seen_by_sql(site: Site, machine: Machine) -> dict[str, tuple[timedelta, bool]]:
    row = await seen(site, "SELECT * FROM farrier.node_lifecycle WHERE id = $1", machine)
    return {
        each: (row[f"{each}_limit"], row[f"{each}_above_since"] is not None)
        for each in ("status", "management", "workflow", "stage", "end_to_end")
        if row[f"{each}_limit"] is not None
    }


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("make", [enrolling, retried, offline, verified, never_asked, draining])
@pytest.mark.parametrize("later", [timedelta(0), 5 * HOUR])
async def test_the_view_has_the_clocks_that_node_show_has(site: Site, make: Any, later: timedelta) -> None:
    machine = await make(site)
    await site.wait(later)
    assert await seen_by_sql(site, machine) == await seen_by_python(site, machine)


async def test_the_inventory_shows_since_when_a_node_is_above_its_limit(site: Site) -> None:
    machine = await offline(site)
    row = "SELECT status_entered_at, status_limit, status_above_since FROM farrier.node_inventory WHERE id = $1"
    kept = await seen(site, row, machine)
    assert (kept["status_limit"], kept["status_above_since"]) == (30 * MINUTE, None)
    await site.wait(HOUR)
    above = await seen(site, row, machine)
    assert above["status_above_since"] == above["status_entered_at"] + 30 * MINUTE


async def test_the_inventory_shows_no_workflow_and_no_stage(site: Site) -> None:
    columns = await site.conn.fetch(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'farrier' AND table_name = 'node_inventory'"
    )
    names = {row[0] for row in columns}
    assert "status_above_since" in names
    assert not [name for name in names if "workflow" in name or "stage" in name]


async def test_a_sites_limit_overrides_a_models_which_overrides_the_common_limit(site: Site) -> None:
    machine = await offline(site)
    limits = Limits(
        everywhere={"status.offline": 2 * HOUR},
        models={"dgx": {"status.offline": 3 * HOUR}},
        sites={"ams1": {"status.offline": 4 * HOUR}},
    )
    await catalog.set_limits(site.conn, limits)
    query = "SELECT status_limit FROM farrier.node_inventory WHERE id = $1"
    shown = [await site.conn.fetchval(query, machine.id)]
    for belongs in ("model = 'dgx'", "site = 'ams1'"):
        await site.conn.execute(f"UPDATE farrier.nodes SET {belongs} WHERE id = $1", machine.id)
        shown.append(await site.conn.fetchval(query, machine.id))
    assert shown == [2 * HOUR, 3 * HOUR, 4 * HOUR]


async def test_a_limit_that_left_the_settings_is_the_default_again(site: Site) -> None:
    machine = await offline(site)
    await catalog.set_limits(site.conn, Limits(sites={"ams1": {"status.offline": HOUR}}))
    await catalog.set_limits(site.conn, Limits())
    await catalog.sync(site.conn)
    await site.conn.execute("UPDATE farrier.nodes SET site = 'ams1' WHERE id = $1", machine.id)
    query = "SELECT status_limit FROM farrier.node_inventory WHERE id = $1"
    assert await site.conn.fetchval(query, machine.id) == 30 * MINUTE


async def test_an_alert_is_shown_as_the_agent_reported_it(site: Site) -> None:
    machine = await site.active()
    await machine.report({"ok": False, "alerts": ALERTS})
    stored = await site.conn.fetchval(
        "SELECT health_alerts::text FROM farrier.node_lifecycle WHERE id = $1", machine.id
    )
    page = await PostgresQueries(site.pool).node(machine.name)
    assert msgspec.json.decode(stored) == ALERTS
    assert page.rows[0].alerts == msgspec.convert(ALERTS, tuple[Alert, ...])
    assert explain(page.rows[0], page.now, Limits()).alerts == page.rows[0].alerts


async def test_an_alert_without_a_message_is_shown_too(site: Site) -> None:
    machine = await site.active()
    await machine.report({"ok": False, "alerts": [{"id": "ecc"}]})
    page = await PostgresQueries(site.pool).node(machine.name)
    assert [(alert.id, alert.message) for alert in page.rows[0].alerts] == [("ecc", "")]
