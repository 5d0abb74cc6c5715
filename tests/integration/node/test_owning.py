"""A node in `draining` or `removing` needs a live decommission: `why` reports a missing one, and `resume` makes it.

Such a node comes from a backup, or from an UPDATE by hand past the guards, as in these tests.
"""

from __future__ import annotations

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice import explanation
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import TaskType
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site

ORPHANED = "UPDATE farrier.nodes SET live_workflow_kind = NULL, live_workflow_id = NULL"
ENDED = "UPDATE farrier.node_decommissions SET status = 'cancelled'"
# Ways in which a node can lose its decommission.
WAYS = {
    "it is gone": f"{ORPHANED}; DELETE FROM farrier.node_tasks; DELETE FROM farrier.node_decommissions",
    "it has ended": f"{ORPHANED}; {ENDED}",
    "the node names an ended one": ENDED,
}
CARRIED_BY = {"draining": TaskType.DRAIN, "removing": TaskType.UNINSTALL}


AGENTLESS = "UPDATE farrier.nodes SET agentless = true"


async def found(site: Site, status: str, way: str, *, agentless: bool = False) -> Machine:
    """A node in this status that has lost its decommission, after its next run."""
    machine = await (site.draining() if status == "draining" else site.removing())
    await edited(site, f"{way}; {AGENTLESS}" if agentless else way)
    assert (await machine.look())["status"] == status
    return machine


async def edited(site: Site, statements: str) -> None:
    async with site.conn.transaction():
        await site.conn.execute("SET LOCAL session_replication_role = replica")
        await site.conn.execute(statements)
    await site.wait(MINUTE)


async def told(site: Site, machine: Machine) -> explanation.Why:
    page = await PostgresQueries(site.pool).node(machine.name)
    return explanation.explain(page.rows[0], page.now, Limits())


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("agentless", [False, True], ids=["agent", "agentless"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("status", CARRIED_BY)
async def test_why_reports_the_missing_decommission_and_advises_resume(
    site: Site, status: str, way: str, agentless: bool
) -> None:
    machine = await found(site, status, way, agentless=agentless)
    said = await told(site, machine)
    assert said.reason == f"waits for an operator: the node is {status}, but no decommission of it is live"
    assert any("without a live decommission" in error for error in said.errors)
    assert said.command == f"farrier node resume {machine.name}"


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("status", CARRIED_BY)
async def test_resume_makes_the_decommission_and_the_node_goes_on(site: Site, status: str, way: str) -> None:
    machine = await found(site, status, way)
    await machine.asked("resume")
    row = await machine.look()
    assert (row["status"], row["live"], row["workflow_status"]) == (status, "decommission", "running")
    await machine.finish(CARRIED_BY[status])
    assert (await machine.state())[0] == ("retired" if status == "draining" else "deleted")


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("status", CARRIED_BY)
async def test_resume_of_an_agentless_node_makes_a_forced_decommission(site: Site, status: str, way: str) -> None:
    machine = await found(site, status, way, agentless=True)
    asked = await machine.ask("resume")
    assert asked.status == "accepted" and "no decommission of it is live" in str(asked.reason)
    row = await machine.look()
    assert (row["status"], row["live"], row["workflow_status"]) == (status, "decommission", "running")
    await site.wait(HOUR)
    row = await machine.look()
    assert row["status"] == ("retired" if status == "draining" else "deleted")


@pytest.mark.parametrize("status", CARRIED_BY)
async def test_a_decommission_that_resume_made_is_cancelled_like_any_other(site: Site, status: str) -> None:
    machine = await found(site, status, WAYS["it is gone"])
    await site.wait(HOUR)  # so that the node is not healthy again at once
    await (await machine.asked("resume")).asked("cancel")
    assert (await machine.state())[0] == ("offline" if status == "draining" else "retired")


@pytest.mark.parametrize("status", CARRIED_BY)
async def test_a_live_decommission_that_the_node_does_not_name_goes_on_by_itself(site: Site, status: str) -> None:
    machine = await found(site, status, ORPHANED)
    await machine.finish(CARRIED_BY[status])
    assert (await machine.state())[0] == ("retired" if status == "draining" else "deleted")


async def test_a_deletion_that_lost_its_decommission_goes_on_by_itself(site: Site) -> None:
    machine = await site.removing()
    await edited(site, f"{WAYS['it is gone']}; UPDATE farrier.nodes SET deleting = true")
    assert (await machine.state())[0] == "deleted"


async def test_a_task_that_an_agent_holds_is_not_made_twice(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(TaskType.DRAIN, HOUR)
    assert lease is not None
    await edited(site, f"{ORPHANED}; {ENDED}")
    await machine.asked("resume")
    assert [task["status"] for task in await machine.tasks()] == ["dispatched"]
    await machine.end(lease)
    assert (await machine.state())[0] == "retired"


async def test_a_task_whose_lease_ran_out_meanwhile_is_issued_again(site: Site) -> None:
    machine = await site.draining()
    assert await machine.claim(TaskType.DRAIN, 10 * SECOND) is not None
    await edited(site, f"{ORPHANED}; {ENDED}")
    await machine.asked("resume")
    assert [task["status"] for task in await machine.tasks()] == ["expired", "queued"]


async def test_an_expired_lease_does_not_end_a_decommission(site: Site) -> None:
    for machine, type_ in ((await site.draining(), TaskType.DRAIN), (await site.removing(), TaskType.UNINSTALL)):
        before = await machine.look()
        for _ in range(3):
            assert await machine.claim(type_, 10 * SECOND) is not None
            await site.wait(MINUTE)
            after = await machine.look()
            assert (after["status"], after["workflow_status"]) == (before["status"], "running")
            assert after["live"] == "decommission"


async def test_a_paused_node_without_its_decommission_is_resumed_after_the_pause(site: Site) -> None:
    machine = await found(site, "draining", WAYS["it is gone"])
    await machine.asked("pause", reason="looked at")
    assert (await told(site, machine)).command == f"farrier node unpause {machine.name}"
    await (await machine.asked("unpause")).asked("resume")
    assert (await machine.state())[1] == "running"
