"""A node whose cleanup was not validated returns to service only after a cleanup, or when released with a reason."""

from __future__ import annotations

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice import explanation
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import TaskType
from tests.support.site import MINUTE, Machine, Site

CAUSE = "cleaning/validation_failed"
UNPROVEN = {"cleaning/unproven": "note"}  # these tests end the scrub without evidence
CLEANING = (TaskType.RELEASE_ALLOCATIONS, TaskType.DRAIN, TaskType.SCRUB_GPU)


async def failed(site: Site) -> Machine:
    """A retired node with a decommission whose validation failed for good."""
    machine = await (await site.active()).asked("decommission", mode="soft_reset")
    for type_ in CLEANING:
        await machine.finish(type_)
    for _ in range(5):
        await machine.finish(TaskType.VALIDATE_CLEAN, succeeded=False, times=5)
        await site.wait(16 * MINUTE)
    assert await machine.state() == ("retired", "failed_manual_intervention", "validate_clean_node")
    return machine


async def given_up(site: Site) -> Machine:
    """A retired node whose decommission failed its validation and was cancelled."""
    machine = await (await failed(site)).asked("cancel")
    assert (await machine.state())[:2] == ("retired", "cancelled")
    return machine


async def is_marked(machine: Machine) -> None:
    assert await machine.conditions() == {CAUSE: "quarantine", **UNPROVEN}


async def test_a_node_whose_validation_failed_does_not_return_to_service(site: Site) -> None:
    machine = await given_up(site)
    await machine.beat()  # the agent reports that the node is healthy
    answer = await machine.ask("reactivate")
    assert answer.status == "rejected" and f"submit release with key: {CAUSE}" in str(answer.reason)
    await is_marked(machine)


async def test_release_requires_the_name_and_a_reason_for_an_unvalidated_node(site: Site) -> None:
    machine = await given_up(site)
    advice = f"submit release with key: {CAUSE} and a reason"
    for params in ({}, {"reason": "clean"}, {"key": CAUSE}):
        refused = await machine.ask("release", **params)
        assert refused.status == "rejected" and advice in str(refused.reason)
    await is_marked(machine)
    released = await machine.ask("release", key=CAUSE, reason="disks replaced by hand")
    assert released.status == "accepted" and "disks replaced by hand" in str(released.reason)
    await (await machine.asked("reactivate")).beat()
    assert (await machine.state())[0] == "active" and await machine.conditions() == UNPROVEN


@pytest.mark.parametrize("mode", ["soft_reset", "storage_cleanup"])
async def test_a_validated_cleanup_puts_the_node_back_into_service(site: Site, mode: str) -> None:
    machine = await (await given_up(site)).asked("decommission", mode=mode)
    for type_ in (*CLEANING, TaskType.CLEANUP_STORAGE, TaskType.VALIDATE_CLEAN):
        if await machine.tasks(type_) and (await machine.tasks(type_))[-1]["status"] == "queued":
            await machine.finish(type_)
    await machine.beat()
    assert (await machine.state())[:2] == ("active", "completed")
    assert await machine.quarantine() is None


async def test_a_repeated_validation_that_succeeds_clears_the_node(site: Site) -> None:
    machine = await (await (await failed(site)).asked("retry_stage")).finish(TaskType.VALIDATE_CLEAN)
    await machine.beat()
    assert (await machine.state())[0] == "active" and await machine.quarantine() is None


async def test_an_onboarding_does_not_clear_the_retired_node(site: Site) -> None:
    machine = await (await given_up(site)).asked("onboard", mode="manual")
    await (await machine.enroll()).beat()
    assert (await machine.state())[:2] == ("quarantined", "completed")
    await is_marked(machine)


async def test_why_reports_the_failed_validation_and_the_way_out(site: Site) -> None:
    machine = await given_up(site)
    page = await PostgresQueries(site.pool).node(machine.name)
    said = explanation.explain(page.rows[0], page.now, Limits())
    assert any(error.startswith("cleanup not validated: ") for error in said.errors)
    assert "decommission" in said.advice and "release" in said.advice and said.command is None
