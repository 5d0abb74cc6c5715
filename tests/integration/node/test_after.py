"""The snapshot that the handler computes after a change of status equals the one that a load returns."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.node.layers import NODE
from tests.support.site import MINUTE, Machine, Site


async def falls_silent(machine: Machine) -> None:
    await machine.site.wait(10 * MINUTE)


async def is_heard_again(machine: Machine) -> None:
    await machine.beat()


async def test_the_computed_snapshot_after_a_status_change_equals_the_loaded_one(site: Site) -> None:
    machine = await site.active()
    before = len(await machine.path())
    for befall in (falls_silent, is_heard_again):
        await befall(machine)
        entry = site.owner.entry(NODE, machine.id)
        known: Any = entry.snapshot
        loaded = (await PostgresStateIO(site.pool, NodeRows()).load([machine.id])).resources[machine.id]
        assert known.status_entered_at != loaded.status_entered_at, "it was computed, and not loaded"
        assert replace(known, status_entered_at=loaded.status_entered_at) == loaded
    assert (await machine.path())[before:] == ["offline", "active"]
    rows = await site.conn.fetch("SELECT outcome ->> 'outcome' AS outcome FROM farrier.outcomes WHERE kind = 'node'")
    assert {row["outcome"] for row in rows} <= {"wait", "do_nothing"}


async def test_a_node_is_loaded_after_a_run_that_decided_about_a_condition(site: Site) -> None:
    """The database knows when the effect of the condition changed."""
    machine = await site.active()
    await machine.beat("gpu-lost")
    assert (await machine.path())[-1] == "quarantined"
    loaded = (await PostgresStateIO(site.pool, NodeRows()).load([machine.id])).resources[machine.id]
    assert site.owner.entry(NODE, machine.id).snapshot == loaded


async def test_a_node_that_a_workflow_moves_is_loaded(site: Site) -> None:
    machine = await site.active()
    entry = site.owner.entry(NODE, machine.id)
    loaded = (await PostgresStateIO(site.pool, NodeRows()).load([machine.id])).resources[machine.id]
    assert entry.snapshot == loaded
