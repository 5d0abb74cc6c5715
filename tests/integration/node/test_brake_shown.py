"""A node that a brake holds is shown as held wherever an operator looks, and the change feed reports it once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.filter_names import BRAKE, FREE, HELD
from farrier.model.views.history import HistoryEntry, HistoryFilter
from farrier.model.views.nodes import NodeFilter
from tests.integration.node.test_brake import HOLDS, beat, fleet, later, site, status_of
from tests.integration.test_pages_actions import hidden
from tests.support.site import MINUTE, Machine, Site
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site

__all__ = ["site"]

SCHEDULABLE_AND_HELD = "SELECT ARRAY[bool_and(schedulable), bool_and(held)] FROM farrier.node_inventory"


@pytest.fixture
async def web(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(open_site(backend_on(site.pool, site.db.dsn))) as client:
        yield client


@pytest.fixture
async def silent(site: Site) -> list[Machine]:
    """The nodes of a site, all of which are silent and held, in however many commits they would have left."""
    machines = await fleet(site, 6)
    await site.conn.execute("UPDATE farrier.settings SET brake_share = 0, brake_at_least = 1")
    await later(site, 4 * MINUTE)
    return machines


async def recovered(site: Site, machines: list[Machine]) -> None:
    """Let the agents send heartbeats until the brake no longer holds their nodes."""
    for _ in range(2):
        await beat(machines)
        await later(site, HOLDS / 2)


async def pulse(site: Site) -> None:
    """One pulse of a controller, which follow each other every two seconds."""
    await site.conn.execute("SELECT farrier.beat()")
    await site.settled()


async def holds(site: Site) -> tuple[HistoryEntry, ...]:
    """The holds in the change feed, and their ends, the newest first."""
    return (await PostgresQueries(site.pool).history(HistoryFilter(layers=(BRAKE,)))).changes


async def test_a_scheduler_sees_that_a_schedulable_node_is_held(site: Site, silent: list[Machine]) -> None:
    assert await site.conn.fetchval(SCHEDULABLE_AND_HELD) == [True, True]
    await recovered(site, silent)
    assert await site.conn.fetchval(SCHEDULABLE_AND_HELD) == [True, False]


async def test_held_nodes_are_listed_as_failing_with_held_beside_schedulable(
    site: Site, web: httpx.AsyncClient, silent: list[Machine]
) -> None:
    await fleet(site, 1, "fra1")
    listed = (await web.get("/api/v1/nodes", params={"failed": True})).json()["nodes"]
    assert [node["name"] for node in listed] == [machine.name for machine in silent]
    assert {(node["status"], node["schedulable"], node["held"]) for node in listed} == {("active", True, True)}
    one = (await web.get(f"/api/v1/nodes/{silent[0].name}")).json()["node"]
    assert (one["schedulable"], one["held"], bool(one["braked_at"])) == (True, True, True)


async def test_figures_and_the_list_of_brakes_count_the_held_nodes(
    site: Site, web: httpx.AsyncClient, silent: list[Machine]
) -> None:
    figures = (await web.get("/api/v1/figures")).json()
    assert (figures["held"], figures["brakes_holding"]) == (6, 1)
    (brake,) = (await web.get("/api/v1/brakes")).json()["brakes"]
    assert (brake["site"], brake["held"], brake["leaving"], brake["in_service"]) == ("ams1", 6, 6, 6)
    assert brake["nodes"] == [machine.name for machine in silent]


async def test_a_lifted_brake_is_listed_and_holds_no_node(
    site: Site, web: httpx.AsyncClient, silent: list[Machine]
) -> None:
    lift = {"reason": "power failure in hall 2", "seconds": 600}
    assert (await web.post("/api/v1/sites/ams1/brake-lift", json=lift, headers=WITH_TOKEN)).status_code == 204
    (brake,) = (await web.get("/api/v1/brakes")).json()["brakes"]
    assert (brake["held"], brake["lift_reason"], brake["nodes"]) == (0, "power failure in hall 2", [])
    assert not any(node.held for node in (await PostgresQueries(site.pool).inventory(NodeFilter())).rows)
    assert "is lifted" in (await web.get("/controllers")).text


async def test_pages_show_which_nodes_are_held(site: Site, web: httpx.AsyncClient, silent: list[Machine]) -> None:
    for path in ("/", "/controllers"):
        page = (await web.get(path)).text
        assert "The brake of site ams1 holds 6 nodes in service" in page
        assert f'href="/nodes/{silent[0].name}"' in page
    assert (await web.get("/")).text.count(">held by the brake<") == 6
    assert "by the brake of site ams1, which last refused" in (await web.get(f"/nodes/{silent[0].name}")).text


async def test_several_brakes_take_one_paragraph_of_the_inventory(
    site: Site, web: httpx.AsyncClient, silent: list[Machine]
) -> None:
    await fleet(site, 6, "fra1")
    await later(site, 4 * MINUTE)
    page = (await web.get("/")).text
    assert "hold 12 nodes in service: site ams1" in page and "site fra1" in page
    assert page.count('class="problem"') == 1


async def test_an_operator_lifts_a_brake_on_a_page(site: Site, web: httpx.AsyncClient, silent: list[Machine]) -> None:
    assert "/brake-lift" not in (await web.get("/controllers")).text
    assert (await web.get("/brake-lift?site=ams1")).status_code == 401
    web.headers.update(WITH_TOKEN)
    (path,) = re.findall(r'href="(/brake-lift[^"]*)">lift the brake', (await web.get("/controllers")).text)
    form = hidden((await web.get(path)).text)
    for given, status in (
        ({"reason": "hall 2", "lasts": "25h"}, 400),
        ({"reason": ""}, 409),
        ({"reason": "hall 2"}, 303),
    ):
        assert (await web.post(path, data=form | given)).status_code == status, given
    (brake,) = (await PostgresQueries(site.pool).brakes()).rows
    assert (brake.lift_reason, brake.held) == ("hall 2", 0)
    assert "end or extend the lift" in (await web.get("/controllers")).text


async def test_the_change_feed_reports_a_held_node_once_while_it_is_held(site: Site, silent: list[Machine]) -> None:
    for _ in range(5):
        await later(site, MINUTE)
    told = await holds(site)
    assert sorted(each.name for each in told) == sorted(machine.name for machine in silent)
    assert {(each.layer, each.target_state, each.cause) for each in told} == {(BRAKE, HELD, "brake")}
    assert "the brake of site ams1 for silence keeps the node in service" in told[0].reason


async def test_the_change_feed_reports_a_node_again_that_recovered_and_is_held_again(
    site: Site, silent: list[Machine]
) -> None:
    await recovered(site, silent)
    await later(site, 10 * MINUTE)
    per_node = [sum(each.id == machine.id for each in await holds(site)) for machine in silent]
    assert per_node == [2] * 6


async def test_history_says_of_each_held_node_when_the_brake_was_lifted_by_whom_and_why(
    site: Site, silent: list[Machine]
) -> None:
    await pulse(site)
    assert {each.target_state for each in await holds(site)} == {HELD}
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'fire in hall 2', requested_by => 'ann')")
    for _ in range(2):
        await pulse(site)
    ends = [each for each in await holds(site) if each.target_state == FREE]
    assert sorted(each.name for each in ends) == sorted(machine.name for machine in silent)
    assert {(each.source_state, each.requested_by, each.reason) for each in ends} == {
        (HELD, "ann", "no brake keeps the node in service any more: the brake of its site was lifted: fire in hall 2")
    }
    assert await status_of(silent) == ["offline"] * 6


async def test_history_says_when_a_hold_ended_by_itself_and_when_the_node_left_service(
    site: Site, silent: list[Machine]
) -> None:
    gone, *others = silent
    await gone.asked("quarantine", reason="hall 2 closes")
    await recovered(site, others)
    await pulse(site)
    ends = {each.name: each.reason.rpartition(": ")[2] for each in await holds(site) if each.target_state == FREE}
    assert ends == {gone.name: "it is quarantined"} | {each.name: "it has no cause to leave" for each in others}


async def test_a_node_that_a_commit_has_locked_is_free_in_history_with_the_next_pulse(
    site: Site, silent: list[Machine]
) -> None:
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'fire in hall 2')")
    async with site.db.connect() as other, other.transaction():
        await other.execute("SELECT FROM farrier.nodes WHERE id = $1 FOR UPDATE", silent[0].id)
        await site.conn.execute("SELECT farrier.beat()")
        freed = {each.id for each in await holds(site) if each.target_state == FREE}
    assert freed == {machine.id for machine in silent[1:]}
    await pulse(site)
    assert {each.id for each in await holds(site) if each.target_state == FREE} == freed | {silent[0].id}
