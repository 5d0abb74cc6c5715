"""A commit of a node writes the columns that the run changed, and a load reads what the node has."""

from __future__ import annotations

from typing import Any

import msgspec

from farrier.io.kinds.node import NodeRows
from farrier.model.loop.runs import Due, Finished
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import LeaveService, Write
from tests.support.site import MINUTE, Machine, Site

_NEXT_RELEASE = (
    """UPDATE farrier.nodes SET bmc = bmc || '{"seen_by_next_release": true}', version = version + 1 WHERE id = $1"""
)
_MANY_CONDITIONS = """
    INSERT INTO farrier.node_conditions (node, source, id, requested)
    SELECT id, 'operator', 'many ' || number, 'note' FROM farrier.nodes, generate_series(1, 1000) number
"""
_CHANGED = """
    SELECT farrier.write_conditions(jsonb_build_object('conditions', json_agg(c), 'ended_conditions', '[]'::json))
      FROM (SELECT id AS run, 'operator' AS source, 'default' AS id, '' AS target, 'a disk' AS message,
                   'quarantine' AS requested, 'quarantine' AS effect, false AS released FROM farrier.nodes) c
"""
_READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'node_conditions'"


async def loaded(site: Site, machine: Machine) -> dict[str, Any]:
    """The fields of a node's snapshot as the database sends them."""
    (row,) = await site.conn.fetch(NodeRows().load, [machine.id])
    return msgspec.json.decode(row["snapshot"])  # type: ignore[no-any-return]


async def test_a_change_of_status_keeps_facts_about_the_bmc_that_only_another_release_knows(site: Site) -> None:
    machine = await site.active()
    await site.conn.execute(_NEXT_RELEASE, machine.id)
    await site.wait(10 * MINUTE)
    assert (await machine.path())[-1] == "offline"
    assert (await loaded(site, machine))["bmc"]["seen_by_next_release"] is True


def test_a_commit_sends_once_what_its_runs_write_alike() -> None:
    run = Finished[Node, Write](id=1, epoch=1, version=1, due=Due.NEVER, outcome="", writes=(LeaveService("silence"),))
    *_, places, commits, statuses, managements, workflows, causes = NodeRows().written([run, run])
    assert (places, list(causes), len(commits) + len(statuses) + len(managements) + len(workflows)) == (
        [1, 1],
        ["silence"],
        4,
    )


async def test_a_snapshot_has_fields_for_a_workflow_only_while_the_node_has_one(site: Site) -> None:
    active, draining = await site.active(), await site.draining()
    only_live = {"workflow", "tasks", "region", "outages", "labels", "networks", "secrets_left", "expected"}
    assert not only_live & (await loaded(site, active)).keys()
    assert only_live <= (await loaded(site, draining)).keys()


async def test_a_commit_planned_over_an_empty_table_reads_only_the_conditions_of_its_nodes(site: Site) -> None:
    await site.active()
    await site.conn.execute("VACUUM ANALYZE farrier.node_conditions")
    await site.conn.execute("SET enable_seqscan = off")  # as write_nodes does
    for _ in range(6):  # from the sixth call on, the plan stays
        await site.conn.execute(_CHANGED)
    await site.conn.execute(_MANY_CONDITIONS)
    async with site.conn.transaction():
        await site.conn.execute(_CHANGED)
        assert await site.conn.fetchval(_READ) < 100, "dead rows count, too"
