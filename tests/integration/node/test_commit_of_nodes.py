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
