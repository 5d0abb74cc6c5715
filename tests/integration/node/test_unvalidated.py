"""A node whose cleanup was not validated returns to service only after a cleanup, or when released with a reason."""

from __future__ import annotations

import pytest

from farrier.io.queries import PostgresQueries
from farrier.model import why
from farrier.model.limits import Limits
from farrier.model.node import TaskType
from tests.support.site import MINUTE, SECOND, Machine, Site

CAUSE = "cleanup_validation_failed"
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


async def quarantined(site: Site) -> Machine:
    """The node of `given_up` after `reactivate` and a heartbeat of its healthy agent."""
    machine = await (await given_up(site)).asked("reactivate")
    await machine.beat()
    return machine


async def is_quarantined(machine: Machine) -> None:
    assert (await machine.state())[0] == "quarantined"
    assert await machine.quarantine() == CAUSE


async def test_reactivate_quarantines_a_node_whose_validation_failed(
    site: Site,
) -> None:
    machine = await given_up(site)
    before = len(await machine.path())
    await machine.beat()  # the agent reports that the node is healthy
    await machine.asked("reactivate")
    assert (await machine.path())[before:] == ["offline", "quarantined"]
    for _ in range(3):
        await site.wait(30 * SECOND)
        await machine.beat()
    await is_quarantined(machine)
    assert (await machine.path())[before:] == ["offline", "quarantined"]


async def test_release_requires_a_reason_for_an_unvalidated_node(site: Site) -> None:
    machine = await quarantined(site)
    refused = await machine.ask("release")
    assert refused.status == "rejected" and "reason" in str(refused.reason)
    await is_quarantined(machine)
    released = await machine.ask("release", reason="disks replaced by hand")
    assert released.status == "accepted" and "disks replaced by hand" in str(released.reason)
    assert (await machine.state())[0] == "active" and await machine.quarantine() is None


@pytest.mark.parametrize("mode", ["soft_reset", "storage_cleanup"])
async def test_a_validated_cleanup_puts_the_node_back_into_service(site: Site, mode: str) -> None:
    machine = await (await quarantined(site)).asked("decommission", mode=mode)
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


async def test_a_cancelled_validation_counts_as_a_failed_one(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="soft_reset")
    for type_ in CLEANING:
        await machine.finish(type_)
    await (await machine.asked("cancel")).asked("reactivate")
    await is_quarantined(await machine.beat())


async def test_a_drain_does_not_clear_the_node(site: Site) -> None:
    machine = await (await quarantined(site)).asked("drain")
    await machine.finish(TaskType.DRAIN)
    assert (await machine.state())[0] == "retired"
    await (await machine.asked("reactivate")).beat()
    await is_quarantined(machine)


async def test_an_onboarding_does_not_clear_the_retired_node(site: Site) -> None:
    machine = await (await given_up(site)).asked("onboard", mode="manual")
    await (await machine.enroll()).beat()
    assert (await machine.state())[1] == "completed"
    await is_quarantined(machine)


async def test_why_reports_the_result_of_a_reactivation_and_the_way_out(site: Site) -> None:
    machine = await given_up(site)
    page = await PostgresQueries(site.pool).node(machine.name)
    said = why.explain(page.rows[0], page.now, Limits())
    assert any(error.startswith("cleanup not validated: ") for error in said.errors)
    assert "return to service would quarantine it" in said.advice and "decommission" in said.advice
    await (await machine.asked("reactivate")).beat()
    page = await PostgresQueries(site.pool).node(machine.name)
    said = why.explain(page.rows[0], page.now, Limits())
    assert said.reason.startswith(f"quarantined ({CAUSE})")
    assert "with a reason" in said.advice and said.command is None
