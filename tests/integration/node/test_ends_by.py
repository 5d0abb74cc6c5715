"""A wait for a person and a wait that ends by itself differ in the view and in the metric."""

from __future__ import annotations

from datetime import timedelta

from farrier.io.queries.lists import PostgresQueries
from farrier.model.node.limits import Limits
from farrier.model.views.census import Rules
from tests.support.site import Site

RULES = Rules(
    limits=Limits(), offline_after=timedelta(minutes=3), observation_ttl=timedelta(minutes=5), name_at_most=10
)
VIEW = "SELECT ends_by FROM farrier.node_lifecycle WHERE id = $1"


async def counted(site: Site) -> dict[str, int]:
    census = await PostgresQueries(site.pool).census(RULES)
    return {each.ends_by: each.count for each in census.waiting if each.kind == "node"}


async def test_the_view_and_the_metric_tell_waits_for_a_person_from_waits_that_end_by_themselves(site: Site) -> None:
    served = await site.active()
    draining = await site.draining()
    fresh = await site.register("fresh")
    await site.settled()
    shown = [await site.conn.fetchval(VIEW, each.id) for each in (served, draining, fresh)]
    assert shown == [None, "itself", "person"]
    assert await counted(site) == {"itself": 1, "person": 1}
    await draining.asked("pause", reason="hands in it")
    assert await site.conn.fetchval(VIEW, draining.id) == "person"
