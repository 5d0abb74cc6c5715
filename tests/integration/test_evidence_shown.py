"""The evidence of a node's cleanings is shown by the API, the command line and the node's page."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from farrier.io.connections.pool import Connection
from tests.integration.cli.conftest import Prompt, farrier
from tests.support import pg

__all__ = ["farrier"]

CLEANED = """
    INSERT INTO farrier.node_decommissions (node_id, mode, status, ended_at, memo)
    SELECT n.id, 'storage_cleanup', 'completed', farrier.now(), '{}' FROM farrier.nodes n;
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, ended_at, claimed_by, evidence)
    SELECT d.node_id, d.id, 'node.cleanup_storage', 'succeeded', farrier.now(), 'agent of gpu-1',
           '{"by": "agent", "devices": [{"kind": "disk", "serial": "S-OLD", "result": "erased", "method": "format"}]}'
      FROM farrier.node_decommissions d;
    INSERT INTO farrier.node_decommissions (node_id, mode, status, ended_at, memo)
    SELECT n.id, 'reimage', 'completed', farrier.now(), jsonb_build_object('checked_at', farrier.now(), 'evidence',
           '{"by": "region", "script": {"name": "farrier-clean-check", "revision": 7, "sha256": "ab"},
             "power_cycle": {"off_seen_at": "2026-01-01T00:00:00Z", "on_seen_at": "2026-01-01T00:01:00Z"},
             "devices": [{"kind": "disk", "serial": "S-NEW", "result": "failed", "samples": 64, "bad_samples": 3}]
            }'::jsonb)
      FROM farrier.nodes n;
"""


@pytest.fixture(autouse=True)
async def cleaned(db: pg.Database, conn: Connection) -> None:
    """A node that its agent cleaned, and the region later, each with evidence."""
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")  # the guards would refuse ended workflows
        await conn.execute(CLEANED)
    await db.advance(timedelta(minutes=3))


async def test_the_api_lists_evidence_by_region_and_agent_the_newest_first(web: httpx.AsyncClient) -> None:
    found = (await web.get("/api/v1/nodes/gpu-1/evidence")).json()["evidence"]
    assert [(each["mode"], each["type"], each["evidence"]["by"]) for each in found] == [
        ("reimage", None, "region"),
        ("storage_cleanup", "node.cleanup_storage", "agent"),
    ]
    assert found[0]["evidence"]["power_cycle"]["off_seen_at"] == "2026-01-01T00:00:00Z"
    assert len((await web.get("/api/v1/nodes/gpu-1/evidence", params={"limit": 1})).json()["evidence"]) == 1
    assert (await web.get("/api/v1/nodes/gpu-2/evidence")).status_code == 404


async def test_the_command_line_says_who_reported_and_what_was_seen_of_each_device(farrier: Prompt) -> None:
    said = (await farrier("node", "evidence", "gpu-1")).out
    assert "reported by region" in said and "farrier-clean-check of revision 7" in said
    assert "the BMC showed the machine off" in said
    (failed,) = (line for line in said.splitlines() if "S-NEW" in line)
    assert failed.split() == ["disk", "S-NEW", "failed", "64", "3"]
    assert [each["workflow"] for each in (await farrier("node", "evidence", "gpu-1", "--json")).json] == [2, 1]


async def test_a_cleaning_without_evidence_is_shown_as_unproven(
    web: httpx.AsyncClient, farrier: Prompt, conn: Connection
) -> None:
    judged = '[{"stage": "scrub_gpu", "why": "the result has no evidence"}]'
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")
        await conn.execute(
            "INSERT INTO farrier.node_decommissions (node_id, mode, status, ended_at, memo) SELECT n.id, 'soft_reset', "
            "'completed', farrier.now(), jsonb_build_object('judged', $1::jsonb) FROM farrier.nodes n",
            judged,
        )
    newest = (await web.get("/api/v1/nodes/gpu-1/evidence")).json()["evidence"][0]
    assert newest["evidence"] is None
    assert newest["judged"] == [{"stage": "scrub_gpu", "why": "the result has no evidence"}]
    said = "no evidence; scrub_gpu: unproven: the result has no evidence"
    assert said in (await farrier("node", "evidence", "gpu-1")).out
    assert said in (await web.get("/nodes/gpu-1")).text


async def test_a_node_without_evidence_says_so(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-2")
    assert "no cleaning of this node has evidence" in (await farrier("node", "evidence", "gpu-2")).out


async def test_the_page_of_a_node_shows_each_device(web: httpx.AsyncClient) -> None:
    page = (await web.get("/nodes/gpu-1")).text
    assert "disk S-NEW" in page and "64, 3 bad" in page
    assert page.index("disk S-NEW") < page.index("disk S-OLD")
