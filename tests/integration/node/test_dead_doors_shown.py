"""While all doors are dead, every place where an operator looks says since when silence does not count, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from farrier.io.calls.doors import PostgresDoor
from farrier.io.queries.lists import PostgresQueries
from farrier.metrics.gauges import AGENT_REACHED, DOORS, DOORS_DEAD
from farrier.model.advice.explanation import Why, explain
from farrier.model.loop.doors import REACH_EXPECTED, DoorKind, LostPulse
from farrier.model.node.limits import Limits
from tests.integration.node.test_dead_doors import OFFLINE_AFTER, TEN_MINUTES, Hall
from tests.integration.test_fleet_gauges import process
from tests.support import figures
from tests.support.site import MINUTE, Machine, Site
from tests.support.web import backend_on, client_of, open_site

NO_DOOR = "no door of agents runs"
REACHES_NONE = "doors of agents run, but none of them reaches any of the expected agents"


@pytest.fixture
def hall(site: Site) -> Hall:
    return Hall(site)


@pytest.fixture
async def web(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(open_site(backend_on(site.pool, site.db.dsn))) as client:
        yield client


async def why(machine: Machine) -> Why:
    page = await PostgresQueries(machine.site.pool).node(machine.name)
    return explain(page.rows[0], page.now, Limits())


async def gauges(site: Site) -> dict[tuple[str, ...], float]:
    """The gauges about doors, by their names and labels, with whole minutes instead of seconds."""
    gauge = process()
    async with figures.counted(gauge, PostgresQueries(site.pool)):
        await gauge.refresh()
    names = {DOORS.name: 1, DOORS_DEAD.name: 60, AGENT_REACHED.name: 60}
    return {
        (name, *labels): value // names[name]
        for (name, labels), value in figures.samples(gauge).items()
        if name in names
    }


@pytest.mark.parametrize(("count", "door", "text"), [(1, False, NO_DOOR), (REACH_EXPECTED, True, REACHES_NONE)])
async def test_why_says_since_when_silence_does_not_count(hall: Hall, count: int, door: bool, text: str) -> None:
    machine, *_ = await hall.active(count)
    by_sql = await hall.site.active()
    assert not (await why(machine)).errors
    await hall.pass_time(TEN_MINUTES, door=door)
    (error,) = (await why(machine)).errors
    assert error.startswith("the silence of the node's agent does not count since 20")
    assert "UTC, 10m" in error and error.endswith(f"ago: {text}")
    assert (await why(machine)).advice == "restore the doors of agents; farrier controllers lists them"
    assert not (await why(by_sql)).errors
    await hall.pass_time(MINUTE, machine)
    assert not (await why(machine)).errors


async def test_metrics_say_how_long_the_doors_have_been_dead(hall: Hall) -> None:
    machines = await hall.active(REACH_EXPECTED)
    alive = {
        ("farrier_doors", "agents", "alive"): 1,
        ("farrier_doors", "agents", "silent"): 0,
        ("farrier_doors", "pages", "alive"): 0,
        ("farrier_doors", "pages", "silent"): 0,
        ("farrier_doors_dead_seconds", LostPulse.DOORS): 0,
        ("farrier_doors_dead_seconds", LostPulse.AGENTS): 0,
        ("farrier_agent_reached_seconds",): 0,
    }
    assert await gauges(hall.site) == alive
    await hall.pass_time(OFFLINE_AFTER)
    reached = {("farrier_agent_reached_seconds",): 3, ("farrier_doors_dead_seconds", LostPulse.AGENTS): 3}
    assert await gauges(hall.site) == alive | reached
    await hall.hear(*machines)
    await hall.look()
    await hall.pass_time(TEN_MINUTES, door=False)
    assert await gauges(hall.site) == {
        ("farrier_doors", "agents", "alive"): 0,
        ("farrier_doors", "agents", "silent"): 1,
        ("farrier_doors", "pages", "alive"): 0,
        ("farrier_doors", "pages", "silent"): 0,
        ("farrier_doors_dead_seconds", LostPulse.DOORS): 10,
        ("farrier_doors_dead_seconds", LostPulse.AGENTS): 10,
        ("farrier_agent_reached_seconds",): 10,
    }


async def test_a_site_without_doors_has_no_dead_doors(hall: Hall) -> None:
    await hall.site.active()
    await hall.pass_time(TEN_MINUTES, door=False)
    found = await gauges(hall.site)
    assert {labels: found[labels] for labels in found if labels[0] != "farrier_doors"} == {
        ("farrier_doors_dead_seconds", LostPulse.DOORS): 0,
        ("farrier_doors_dead_seconds", LostPulse.AGENTS): 0,
        ("farrier_agent_reached_seconds",): 0,
    }
    assert (await PostgresQueries(hall.site.pool).controllers()).dead_doors is None


async def test_the_page_and_the_api_list_doors_and_say_when_they_are_dead(hall: Hall, web: httpx.AsyncClient) -> None:
    await hall.active(1)
    await PostgresDoor(hall.site.pool, DoorKind.PAGES, "door-2").beat()
    hall.door.reached()
    await hall.door.beat()
    listed = (await web.get("/api/v1/controllers")).json()
    assert [(door["name"], door["kind"], door["reached_at"] is None) for door in listed["doors"]] == [
        ("door-1", "agents", False),
        ("door-2", "pages", True),
    ]
    assert listed["dead_doors"] is None
    page = (await web.get("/controllers")).text
    assert "door-1" in page and "door-2" in page and "does not count" not in page
    await hall.pass_time(MINUTE, door=False)
    assert (await web.get("/api/v1/controllers")).json()["dead_doors"]["pulse"] == "doors"
    page = (await web.get("/controllers")).text
    assert NO_DOOR in page and 'class="state silent"' in page
