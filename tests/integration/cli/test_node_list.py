"""`farrier node list` marks the nodes that need a decision, and lists only these on request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt, force
from tests.integration.cli.test_node import names
from tests.support import pg

ONBOARDING = """
    UPDATE farrier.node_onboardings o
       SET mode = 'manual', status = $2, failure_class = $3, status_entered_at = farrier.now()
      FROM farrier.nodes n WHERE n.id = o.node_id AND n.name = $1
"""
DECOMMISSION = """
    WITH made AS (
        INSERT INTO farrier.node_decommissions (node_id, mode, status, failure_class)
        SELECT n.id, 'soft_reset', 'failed_manual_intervention', 'task_failed' FROM farrier.nodes n WHERE n.name = $1
        RETURNING id)
    UPDATE farrier.nodes n SET live_workflow_kind = 'decommission', live_workflow_id = made.id, status = 'retired'
      FROM made WHERE n.name = $1
"""
BMC = "UPDATE farrier.nodes SET management = $2, bmc = $3 WHERE name = $1"


@pytest.fixture
async def _fleet(farrier: Prompt, db: pg.Database) -> None:
    for name in ("stopped", "retried", "retired", "silent", "unread", "mended", "well", "under-way"):
        await farrier("node", "add", name, "--site", "ams1" if name in ("retried", "well") else "fra1")
    await force(db, ONBOARDING, "stopped", "failed_manual_intervention", "boss_disk_not_found")
    await force(db, ONBOARDING, "retried", "failed_retryable", "timeout")
    await force(db, ONBOARDING, "under-way", "running", None)
    await force(db, DECOMMISSION, "retired")
    await force(db, BMC, "silent", "enroll", '{"failure": "unreachable", "last_error": "no route"}')
    await force(db, BMC, "unread", "manageable", '{"sync_failure": "auth", "sync_error": "refused"}')
    await force(db, BMC, "mended", "enroll", '{"sync_failure": "auth", "sync_error": "refused"}')


@pytest.mark.usefixtures("_fleet")
async def test_the_note_names_the_failure_and_whether_it_waits_for_an_operator(farrier: Prompt) -> None:
    lines = {line.split()[0]: line for line in (await farrier("node", "list")).out.splitlines()}
    for name, note in (
        ("stopped", "waits for an operator: boss_disk_not_found"),
        ("retried", "retries: timeout"),
        ("retired", "waits for an operator: task_failed"),
        ("silent", "BMC: unreachable"),
        ("unread", "power unreadable: auth"),
    ):
        assert lines[name].endswith(note)
    for name in ("well", "under-way", "mended"):
        assert lines[name].split()[-1] in ("ams1", "fra1")


async def test_the_note_names_the_pause_and_the_failure_of_the_bmc(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "a")
    await force(db, BMC, "a", "enroll", '{"failure": "tls", "last_error": "expired"}')
    await force(db, """UPDATE farrier.nodes SET paused = '{"reason": "hands in it", "at": "2026-01-01T00:00:00Z"}'""")
    (_, line) = (await farrier("node", "list")).out.splitlines()
    assert line.endswith("paused: hands in it; BMC: tls")
    (shown,) = (await farrier("node", "list", "--json")).json
    assert (shown["bmc_failure"], shown["power_failure"]) == ("tls", None)


@pytest.mark.usefixtures("_fleet")
async def test_failed_nodes_are_listed_alone_and_with_other_filters(farrier: Prompt, db: pg.Database) -> None:
    failed = ["retired", "retried", "silent", "stopped", "unread"]
    assert await names(farrier, "--failed") == failed
    assert await names(farrier, "--failed", "--site", "ams1") == ["retried"]
    assert await names(farrier, "--failed", "--status", "retired") == ["retired"]
    assert await names(farrier, "--failed", "--management", "manageable", "--site", "ams1") == []
    assert [line.split()[0] for line in (await farrier("node", "list", "--failed")).out.splitlines()] == [
        "NODE",
        *failed,
    ]
    await db.advance(timedelta(days=7))
    late = await names(farrier, "--failed")
    assert sorted(late) == failed and late != failed, "nodes above a limit come first here, too"


async def test_names_globs_and_labels_select_the_listed_nodes(farrier: Prompt) -> None:
    for name, *options in (("gpu-1", "--label", "row=a"), ("gpu-10",), ("gpu-2", "--label", "row=b"), ("cpu-1",)):
        await farrier("node", "add", name, *options)
    assert await names(farrier, "gpu-1") == ["gpu-1"]
    assert await names(farrier, "gpu-1*", "cpu-1") == ["cpu-1", "gpu-1", "gpu-10"]
    assert await names(farrier, "1", "gpu-[2-9]") == ["gpu-1", "gpu-2"]
    assert await names(farrier, "-l", "row") == ["gpu-1", "gpu-2"]
    assert await names(farrier, "gpu-*", "-l", "row!=a") == ["gpu-10", "gpu-2"]
    assert await names(farrier, "-l", "row=a,!spare", "--status", "active,enrolling") == ["gpu-1"]
    assert (await farrier("node", "list", "gpu-1", "--status", "active")).err == "no node matches\n"
    assert (await farrier("node", "list", "*-3")).err == "no node matches\n"


async def test_an_unknown_name_is_refused_after_the_existing_nodes_are_listed(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1")
    said = await farrier("node", "list", "gpu-1", "gpu-9", "rack-*", ends=ExitCode.REFUSED)
    assert [line.split()[0] for line in said.out.splitlines()] == ["NODE", "gpu-1"]
    assert said.err.splitlines()[0] == "farrier: no node is named 'gpu-9'"
    alone = await farrier("node", "list", "gpu-9", ends=ExitCode.REFUSED)
    assert alone.err.splitlines()[0] == "farrier: no node is named 'gpu-9'"
