"""Statements that were planned over empty tables still find rows by keys when the tables have filled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.integration.test_wakes_of_loads import LOADS
from tests.support import pg

# Tables that releases, settings and operators fill: each has a handful of rows in a fleet of any size.
_SMALL = {
    "actions",
    "constants",
    "contradictions",
    "maas_regions",
    "pulse",
    "settings",
    "sites",
    "workflow_mapping",
    "workflow_modes",
    "workflow_statuses",
}


def read_whole(plan: dict[str, Any]) -> Iterator[str]:
    """The tables of which a plan reads all rows."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from read_whole(below)


@pytest.mark.parametrize("kind", LOADS)
async def test_a_load_planned_over_empty_tables_scans_no_growing_table(db: pg.Database, kind: str) -> None:
    async with db.pool(size=1) as connections, connections.acquire() as conn:
        await conn.execute("VACUUM ANALYZE")  # the statistics now say that the tables are empty
        await conn.execute("PREPARE load AS " + LOADS[kind])
        plan = await conn.fetchval("EXPLAIN (FORMAT JSON) EXECUTE load ('{1}')")
        assert set(read_whole(msgspec.json.decode(plan)[0]["Plan"])) <= _SMALL
