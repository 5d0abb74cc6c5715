"""The snapshot that the handler computes after a commit equals the loaded one, but for the times of the commit."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.node.layers import NODE
from farrier.model.node.snapshot import NO_TIME, Node
from tests.support.site import MINUTE, Machine, Site

IN_ONE_COMMIT = """
    SELECT o.at = (SELECT max(at) FROM (SELECT at FROM farrier.history UNION SELECT answered_at FROM farrier.intents) c)
      FROM farrier.outcomes o WHERE o.kind = 'node'
"""
# A load drops outages in which nothing waited; the later ones end after the heartbeat of the test.
OUTAGES = """
    UPDATE farrier.pulse SET gaps = (
        SELECT range_agg(tstzrange(farrier.now() - ago, farrier.now() - ago + interval '1 hour'))
          FROM unnest('{2 hours,59 minutes}'::interval[]) ago)
     WHERE name <> 'agents'
"""


def without_times(node: Node) -> Node:
    conditions = tuple(replace(each, since=None, seen_at=None) for each in node.conditions)
    return replace(node, status_entered_at=NO_TIME, conditions=conditions)


async def assert_computed(machine: Machine) -> None:
    known: Any = machine.site.owner.entry(NODE, machine.id).snapshot
    loaded = (await PostgresStateIO(machine.site.pool, NodeRows()).load([machine.id])).resources[machine.id]
    assert without_times(known) == without_times(loaded)
    assert await machine.site.conn.fetchval(IN_ONE_COMMIT), "the node was loaded, and its outcome was stored later"


@pytest.mark.parametrize(
    ("befall", "path"),
    [
        ((lambda it: it.site.wait(10 * MINUTE), lambda it: it.beat()), ["offline", "active"]),
        ((lambda it: it.ask("quarantine", reason="a fan"), lambda it: it.ask("release")), ["quarantined", "active"]),
        ((lambda it: it.beat("gpu"), lambda it: it.ask("quarantine", reason="a fan")), ["quarantined"]),
    ],
)
async def test_a_node_without_a_workflow_is_computed(site: Site, befall: Any, path: list[str]) -> None:
    await site.conn.execute(OUTAGES)
    machine = await site.active()
    await assert_computed(machine)
    before = len(await machine.path())
    for event in befall:
        await event(machine)
        await assert_computed(machine)
    assert (await machine.path())[before:] == path


async def test_the_commit_that_begins_a_stage_also_stores_why_the_stage_waits(site: Site) -> None:
    await site.conn.execute(OUTAGES)
    await site.enrolled()
    assert await site.conn.fetchval(IN_ONE_COMMIT)
