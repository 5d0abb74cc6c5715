"""Loads read only tables that docs/integrate/wakes.md lists, and find rows by keys although their plans are old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.io.kinds.built_in import PARTITION_ROWS, REGION_ROWS, SEGMENT_ROWS
from farrier.io.kinds.node import NodeRows
from tests.support import pg

PAGE = Path(__file__).parents[2] / "docs/integrate/wakes.md"
LOADS = {
    "node": NodeRows().load,
    "maas_region": REGION_ROWS.load,
    "network_segment": SEGMENT_ROWS.load,
    "ib_partition": PARTITION_ROWS.load,
}
_ROW = re.compile(r"^\| (?P<tables>`\w+`(?:, `\w+`)*) \| [^|]+ \|$", re.MULTILINE)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+[(\s]*(?:ONLY\s+)?(?:farrier\.)?(\w+)", re.IGNORECASE)
_CALL = re.compile(r"\b(?:farrier\.)?(\w+)\s*\(")
_COMMENT = re.compile(r"--[^\n]*")
_FUNCTIONS = """
    SELECT p.proname AS name, pg_get_functiondef(p.oid) AS text FROM pg_proc p
     WHERE p.pronamespace = 'farrier'::regnamespace AND p.prokind = 'f'
"""
_RELATIONS = """
    SELECT c.relname AS name, CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END AS text FROM pg_class c
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'p', 'v')
"""


async def read_by(conn: Connection, statement: str) -> set[str]:
    """The tables that a statement reads, also in functions that it calls and through views. A kind's own table, whose
    name is composed when a function runs, is not among them."""
    functions = {row["name"]: row["text"] for row in await conn.fetch(_FUNCTIONS)}
    relations = {row["name"]: row["text"] for row in await conn.fetch(_RELATIONS)}
    tables: set[str] = set()
    texts, seen = [statement], {""}
    while texts:
        text = _COMMENT.sub("", texts.pop())
        for name in set(_TABLE.findall(text)) & relations.keys():
            tables |= {name} - {each for each, view in relations.items() if view}
            texts += [relations[name]] if relations[name] and name not in seen else []
            seen.add(name)
        for name in (set(_CALL.findall(text)) & functions.keys()) - seen:
            texts.append(functions[name])
            seen.add(name)
    return tables


def documented(kind: str) -> set[str]:
    """The tables that the section of a kind lists, each with an answer to when a change is seen."""
    section = PAGE.read_text().partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    listed = [table for row in _ROW.finditer(section) for table in re.findall(r"\w+", row["tables"])]
    assert len(listed) == len(set(listed)), listed
    return set(listed)


@pytest.mark.parametrize("kind", LOADS)
async def test_the_page_of_wakes_lists_exactly_the_tables_that_a_load_reads(conn: Connection, kind: str) -> None:
    assert documented(kind) == await read_by(conn, LOADS[kind])


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


async def test_analyze_reads_a_small_sample_of_the_tables_that_a_fleet_changes(conn: Connection) -> None:
    """The largest target among the columns and the indexed expressions of a table decides how many rows ANALYZE reads
    and sorts."""
    targets = await conn.fetch("""
        SELECT a.attname AS name, coalesce(nullif(a.attstattarget::int, -1), 100) AS target
          FROM pg_attribute a LEFT JOIN pg_index i ON i.indexrelid = a.attrelid AND i.indkey[a.attnum - 1] = 0
         WHERE a.attnum > 0 AND coalesce(i.indrelid, a.attrelid) = ANY ('{farrier.nodes, farrier.node_agents,
               farrier.node_onboardings, farrier.node_observations, farrier.history, farrier.outcomes}'::regclass[])
    """)
    assert {each["target"] for each in targets} == {0, 25}
    assert {"bmc", "detail", "outcome"} <= {each["name"] for each in targets if each["target"] == 0}
