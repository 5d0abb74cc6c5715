"""Stages `ensure_hardware_sync_configured` and `wait_for_hardware_sync_healthy`: only a second sync is proof."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.config.sites import DeploySite
from farrier.handlers.node.changes import Done, Failed, Settled, Waiting, with_note
from farrier.model.node.failures import MAX_ATTEMPTS, FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, Fault, Status
from tests.support.deployments import MINUTE, SECOND, changes, entered, issue, memo, on_ready, record, taken_up_again
from tests.support.stages import Stand

CONFIGURE = OnboardingStage.ENSURE_HARDWARE_SYNC_CONFIGURED
WAIT = OnboardingStage.WAIT_FOR_HARDWARE_SYNC_HEALTHY
HOUR = timedelta(hours=1)


@pytest.fixture
async def at(stand: Stand) -> Stand:
    """A node that this workflow has just deployed."""
    await on_ready(stand, OnboardingStage.DEPLOY_VIA_MAAS)
    await issue(stand)
    await stand.settle()
    stand.pass_time(HOUR)
    stand.node = with_note(stand.node, deployed_at=stand.now, synced_at=stand.now)
    entered(stand, CONFIGURE)
    stand.world.observed.requests.clear()
    return stand


# --- ensure_hardware_sync_configured


async def test_a_deployment_with_hardware_sync_needs_no_change(at: Stand) -> None:
    assert isinstance(await at.settle(), Done)
    assert changes(at) == []


async def test_hardware_sync_is_switched_on_if_it_is_off(at: Stand) -> None:
    record(at).enable_hw_sync = False
    settled = await at.settle()
    assert isinstance(settled, Done) and "only a new deployment" in settled.reason
    assert record(at).enable_hw_sync and changes(at) == ["update"]


async def test_a_change_whose_response_was_lost_is_not_sent_again(at: Stand) -> None:
    record(at).enable_hw_sync = False
    at.region.faults.add(Fault(method="PUT", broken=Broken.DROP))
    assert isinstance(await at.once(), Waiting)
    assert isinstance(await at.settle(), Done)
    assert changes(at) == ["update"]


@pytest.mark.parametrize("stage", [CONFIGURE, WAIT])
async def test_a_site_without_hardware_sync_skips_both_stages(at: Stand, stage: OnboardingStage) -> None:
    at.use(deploy=DeploySite(hardware_sync=False))
    entered(at, stage)
    settled = await at.settle()
    assert isinstance(settled, Done) and settled.skipped is not None
    assert at.world.observed.operations == []


@pytest.mark.parametrize("status", [Status.READY, Status.DEPLOYING, Status.BROKEN, Status.RESCUE_MODE])
async def test_a_machine_that_is_no_longer_deployed_is_a_disagreement(at: Stand, status: Status) -> None:
    record(at).status = status
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT
    assert changes(at) == []


async def test_a_locked_machine_fails_the_stage(at: Stand) -> None:
    record(at).locked, record(at).enable_hw_sync = True, False
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.UPSTREAM_REFUSED


# --- wait_for_hardware_sync_healthy


async def look(at: Stand, **fields: Any) -> Settled:
    """The stage's result after an observation with these fields; asserts that the stage sends no request itself."""
    at.world.observed.requests.clear()
    at.observe(**{"enable_hw_sync": True, "sync_interval": 900.0} | fields)
    settled = await at.once()
    assert at.world.observed.operations == []
    return settled


def waits(settled: Settled, why: str) -> None:
    assert isinstance(settled, Waiting) and settled.timed
    assert settled.reason == f"waits for the node's hardware sync: {why}"


async def test_the_stage_waits_for_the_first_reading(at: Stand) -> None:
    entered(at, WAIT)
    waits(await at.once(), "MAAS was not read yet")


async def test_the_sync_time_that_maas_sets_at_deployment_is_no_proof(at: Stand) -> None:
    entered(at, WAIT)
    waits(await look(at, last_sync=memo(at).synced_at), "no sync was recorded after the first boot")


async def test_the_sync_of_the_first_boot_is_no_proof(at: Stand) -> None:
    entered(at, WAIT)
    first = memo(at).synced_at
    assert first is not None
    at.pass_time(10 * MINUTE)
    waits(await look(at, last_sync=first + 5 * MINUTE), "no sync was recorded after the first boot")


async def test_a_second_sync_is_proof(at: Stand) -> None:
    entered(at, WAIT)
    at.pass_time(16 * MINUTE)
    assert isinstance(await look(at, last_sync=at.now - MINUTE), Done)


async def test_a_clock_of_the_region_that_is_ahead_does_not_matter(at: Stand) -> None:
    ahead = 9 * MINUTE
    at.node = with_note(at.node, synced_at=at.now + ahead)
    entered(at, WAIT)
    waits(await look(at, last_sync=at.now + ahead), "no sync was recorded after the first boot")
    at.pass_time(16 * MINUTE)
    assert isinstance(await look(at, last_sync=at.now + ahead), Done)


async def test_without_a_first_sync_the_time_of_deployment_counts(at: Stand) -> None:
    at.node = with_note(at.node, synced_at=None)
    entered(at, WAIT)
    waits(await look(at, last_sync=at.now), "no sync was recorded after the first boot")
    at.pass_time(16 * MINUTE)
    assert isinstance(await look(at, last_sync=at.now), Done)


async def test_a_sync_that_is_too_old_is_no_proof(at: Stand) -> None:
    entered(at, WAIT)
    at.pass_time(2 * HOUR)
    late = timedelta(seconds=1350)
    waits(await look(at, last_sync=at.now - late), "the last sync is too old")
    assert isinstance(await look(at, last_sync=at.now - late + 5 * SECOND), Done)


async def test_a_missing_sync_and_a_sync_that_maas_does_not_expect_have_different_reasons(at: Stand) -> None:
    entered(at, WAIT)
    waits(await look(at, last_sync=None), "no sync was recorded")
    waits(await look(at, last_sync=at.now, enable_hw_sync=False), "MAAS does not expect a sync")


async def test_the_default_interval_of_maas_applies_if_no_interval_is_reported(at: Stand) -> None:
    entered(at, WAIT)
    at.pass_time(16 * MINUTE)
    assert isinstance(await look(at, last_sync=at.now, sync_interval=None), Done)


async def test_a_machine_that_left_deployed_is_a_disagreement(at: Stand) -> None:
    entered(at, WAIT)
    record(at).status = Status.RESCUE_MODE
    settled = await look(at)
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT


async def test_only_the_end_of_the_last_attempt_needs_an_operator(at: Stand) -> None:
    entered(at, WAIT)
    taken_up_again(at, attempt=MAX_ATTEMPTS - 1)
    at.now += 46 * MINUTE
    waits(await look(at), "no sync was recorded")  # a deadline ends this as any wait
    taken_up_again(at, attempt=MAX_ATTEMPTS)
    waits(await look(at), "no sync was recorded")
    at.now += 46 * MINUTE
    settled = await look(at)
    assert isinstance(settled, Failed) and settled.failure is FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY
    assert settled.detail.endswith("no sync was recorded")


async def test_a_sync_after_the_deadline_of_the_last_attempt_still_counts(at: Stand) -> None:
    entered(at, WAIT)
    taken_up_again(at, attempt=MAX_ATTEMPTS)
    at.now += 46 * MINUTE
    assert isinstance(await look(at, last_sync=at.now), Done)
