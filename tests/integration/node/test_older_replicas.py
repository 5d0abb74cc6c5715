"""A replica of the release before writes beside new ones: what it does not know of stays as it is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from farrier.handlers.node.moves import change
from farrier.io import statements
from farrier.io.node import NodeRows
from farrier.model.node import Node, Onboarding
from farrier.model.schedule import Due, Finished
from farrier.model.workflow import OnboardingMode
from farrier.model.writes import Write
from tests.support.site import Machine, Site

_LOAD = statements.load("node/load")
_WRITE = "SELECT run FROM farrier.write_nodes($1::jsonb)"
_KNOWN = "UPDATE farrier.nodes SET maas_created = true, redeploying = true WHERE id = $1"
_KEPT = """
    SELECT n.maas_id, n.maas_created, n.redeploying, w.upstream::text AS upstream, w.mark
      FROM farrier.nodes n LEFT JOIN farrier.node_onboardings w ON w.id = n.live_workflow_id WHERE n.id = $1
"""
# What came with MAAS.
_NEW_IN_NODES = ("maas_id", "maas_created", "redeploying")
_NEW_IN_WORKFLOWS = ("upstream", "mark")


async def loaded(site: Site, machine: Machine) -> Node:
    (row,) = await site.conn.fetch(_LOAD, [machine.id])
    return NodeRows().decode(row["snapshot"])


def as_before(changes: dict[str, list[dict[str, Any]]]) -> str:
    """As a program writes it that has never heard of MAAS."""
    for section, rows in changes.items():
        unknown = _NEW_IN_WORKFLOWS if section.endswith("onboardings") else _NEW_IN_NODES
        for row in rows:
            for name in unknown:
                row.pop(name, None)
    return json.dumps(changes)


async def written_as_before(site: Site, machine: Machine, to: Node) -> None:
    async with site.conn.transaction():
        before = await loaded(site, machine)
        to = replace(to, version=before.version)
        run: Finished[Node, Write] = Finished(
            id=machine.id, token=1, version=before.version, due=Due.PERIODIC, outcome="update", to=to
        )
        changes = json.loads(msgspec.json.encode(NodeRows().changes([run])))
        changes["runs"] = [{"run": machine.id, "version": before.version}]
        assert await site.conn.fetch(_WRITE, as_before(changes)) == []


async def test_what_an_old_replica_leaves_out_is_kept(site: Site) -> None:
    machine = await site.register(maas_id="abc123")
    await site.conn.execute(_KNOWN, machine.id)
    node = await loaded(site, machine)
    await written_as_before(site, machine, change(node, not_scrubbed=True))
    (kept,) = await site.conn.fetch(_KEPT, machine.id)
    assert (kept["maas_id"], kept["maas_created"], kept["redeploying"]) == ("abc123", True, True)
    assert json.loads(kept["upstream"]) == {} and kept["mark"]


async def test_a_workflow_that_an_old_replica_begins_is_whole(site: Site) -> None:
    machine = await site.retired()
    node = await loaded(site, machine)
    await written_as_before(site, machine, change(node, workflow=Onboarding(mode=OnboardingMode.MANUAL)))
    (kept,) = await site.conn.fetch(_KEPT, machine.id)
    assert json.loads(kept["upstream"]) == {} and len(kept["mark"]) == 16
