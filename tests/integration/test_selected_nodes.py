"""Lists select nodes by names, globs, IDs and labels, and read only the part of the fleet that these can match."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import pytest

from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.intents import selection
from farrier.model.intents.selection import LabelTest
from farrier.model.node.limits import Limits
from farrier.model.views.nodes import NodeFilter
from tests.support import pg, reading

LABELLED = """
    INSERT INTO farrier.nodes (name, status, management, status_entered_at, labels)
    SELECT p || n, 'offline', 'unmanaged', farrier.now() - n * interval '1 h',
           jsonb_strip_nulls(jsonb_build_object('row', n % 3, 'spare', CASE WHEN n % 2 = 0 THEN 'yes' END))
      FROM unnest('{gpu-,gpu-1,rack.}'::text[]) p, generate_series(2, 9) n
"""
MANY = """
    INSERT INTO farrier.nodes (name, status, management)
    SELECT 'n' || md5(n::text), 'active', 'unmanaged' FROM generate_series(1, 20000) n
"""


conn = reading.unguarded


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("gpu-1*",), ()),
        (("gpu-[2-4]", "rack.5", "7", "*9"), ()),
        (("gpu-12", "gpu-12", "nosuch", "no such", "99999", "gpu-[z-a]"), ()),
        ((), ("row=1",)),
        ((), ("spare,row!=2",)),
        ((), ("!spare", "row=0")),
        ((), ("shelf!=7",)),
        (("gpu-*",), ("spare=yes",)),
    ],
)
async def test_each_matching_node_is_listed_once_in_order(
    db: pg.Database, conn: Connection, names: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    await conn.execute(LABELLED)
    wanted = NodeFilter(names=names, labels=selection.label_tests(labels))
    async with db.pool(size=1) as connections:
        queries = PostgresQueries(connections)
        everything = (await queries.inventory(NodeFilter())).rows
        found: list[str] = []
        while len(page := (await queries.inventory(wanted, after=found[-1] if found else "", limit=3)).rows) == 3:
            found += [node.name for node in page]
        found += [node.name for node in page]
        late = [overdue.node.name for overdue in (await queries.overdue(wanted, Limits())).rows]
    fitting = [
        node.name
        for node in everything
        if not names or any(fnmatchcase(node.name, name) or str(node.id) == name for name in names)
        if all(_passes(node.labels, test) for test in wanted.labels)
    ]
    assert 0 < len(fitting) < len(everything) or labels == ("shelf!=7",)
    assert found == fitting
    assert sorted(late) == fitting


def _passes(labels: Mapping[str, Any], test: LabelTest) -> bool:
    held = test.key in labels and test.value in (None, str(labels[test.key]))
    return held is not test.negated


async def test_impossible_names_select_no_node(db: pg.Database, conn: Connection) -> None:
    await conn.execute(LABELLED)
    async with db.pool(size=1) as connections:
        queries = PostgresQueries(connections)
        for names in (("nosuch",), ("99999",), ("[z-a]",), ("ü", "\udcff", "\x00")):
            assert not (await queries.inventory(NodeFilter(names=names))).rows
            assert not (await queries.overdue(NodeFilter(names=names), Limits())).rows


@pytest.mark.full
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_a_page_reads_only_its_part_of_a_large_fleet(conn: Connection, mode: str) -> None:
    await conn.execute(MANY)
    await conn.execute("ANALYZE farrier.nodes")
    await conn.execute(f"SET plan_cache_mode = {mode}")
    await conn.execute(f"PREPARE inventory AS {statements.load('queries/inventory')}")
    for names, most in ((("*",), 150), (("nab*",), 150), (("n0*", "nf*"), 300), (("nabc*", "n1234"), 20)):
        ranges = [msgspec.structs.astuple(selection.name_range(name)) for name in names]
        arguments = ", ".join(map(_literal, zip(*ranges, strict=True)))
        plan = await conn.fetchval(
            "EXPLAIN (ANALYZE, TIMING off, FORMAT JSON)"
            f" EXECUTE inventory ('{{}}', '{{}}', '{{}}', false, '{{}}', '{{}}', '{{}}', {arguments}, '', 100)"
        )
        assert 0 < _read(msgspec.json.decode(plan)[0]["Plan"]) <= most, names


async def test_a_page_for_a_filter_that_few_nodes_pass_is_not_read_by_name(db: pg.Database, conn: Connection) -> None:
    await conn.execute(MANY)
    await conn.execute("UPDATE farrier.nodes SET site = 's' || id % 2, rack = 'r' || id / 16")
    await conn.execute("VACUUM ANALYZE farrier.nodes")
    async with db.pool(size=1) as connections, connections.acquire() as used:
        for details, by_name in (({"site": ("s1",)}, True), ({"rack": ("r77", "r78")}, False), ({}, True)):
            plan = await _plan(used, "inventory", NodeFilter(details=details), ["", 100])
            assert ("nodes_name" in str(plan)) is by_name, details


@pytest.mark.full
@pytest.mark.parametrize(("statement", "more"), [("counts", ()), ("ordered", ("oldest", -math.inf, "", "", 100))])
async def test_a_statement_that_reads_the_whole_fleet_may_use_several_processes(
    conn: Connection, statement: str, more: Sequence[Any]
) -> None:
    """The planner uses only one for a statement with a function that is not marked as safe for that."""
    await conn.execute(MANY)
    await conn.execute("ANALYZE farrier.nodes")
    await conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    assert "Gather" in str(await _plan(conn, statement, NodeFilter(details={"site": ("s1", "s2")}), more))


async def _plan(conn: Connection, statement: str, wanted: NodeFilter, more: Sequence[Any]) -> Any:
    """The plan of a statement of a list, for the settings that lists use."""
    ranges = [[each] for each in msgspec.structs.astuple(selection.ANY_NAME)]
    details = msgspec.json.encode(wanted.details).decode()
    async with conn.transaction():
        await conn.execute(statements.load("queries/scan"))
        text = f"EXPLAIN (FORMAT JSON) {statements.load(f'queries/{statement}')}"
        plan = await conn.fetchval(text, [], [], details, False, [], [], [], *ranges, *more)
    return msgspec.json.decode(plan)


def _literal(texts: Sequence[str]) -> str:
    return "'{" + ", ".join(f'"{text}"' for text in texts) + "}'"


def _read(plan: dict[str, Any]) -> int:
    """How many rows of nodes a plan read."""
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    mine = own if plan.get("Relation Name") == "nodes" or plan.get("Index Name") == "nodes_name" else 0
    return int(mine) + sum(_read(below) for below in plan.get("Plans", ()))
