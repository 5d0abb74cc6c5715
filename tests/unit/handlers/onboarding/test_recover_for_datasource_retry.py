"""Stage `recover_for_datasource_retry`: releases the machine once, and never switches it on or erases it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from farrier.handlers.node.changes import Done, Failed, ServiceCall, StageStep, Waiting, with_note
from farrier.handlers.node.workflow.stages import run_stage
from farrier.model.maas.changes import Deploy
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, DeployFate, Durations, Fault, Nature, Region, Status
from tests.support.deployments import (
    MINUTE,
    changes,
    entered,
    issue,
    memo,
    on_ready,
    read,
    record,
    taken_up_again,
    workflow,
)
from tests.support.nodes import MARK
from tests.support.stages import Stand, stand

STAGE = OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY
DEPLOY = OnboardingStage.DEPLOY_VIA_MAAS
HOUR = timedelta(hours=1)


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    """A node whose deployment has failed, in a region that takes some time to switch power."""
    region = Region(durations=Durations(power=timedelta(seconds=20)))
    async with stand(region) as at:
        await on_ready(at, DEPLOY)
        await issue(at)
        region.default_nature = Nature(deploy=DeployFate.STORAGE_FAILS)
        assert isinstance(await at.settle(), Done)
        at.pass_time(HOUR)
        assert record(at).status is Status.FAILED_DEPLOYMENT
        entered(at, STAGE)
        at.world.observed.requests.clear()
        yield at


def asks(at: Stand) -> bool:
    """Return whether the stage calls the region instead of waiting for its observer."""
    return isinstance(run_stage(at.node, at.now, at.policy), ServiceCall)


async def through(at: Stand) -> None:
    """Run the stage to its end, with an observation after each minute."""
    for _ in range(5):
        settled = await at.settle()
        if isinstance(settled, Done):
            return
        assert isinstance(settled, Waiting), settled
        at.pass_time(MINUTE)
        at.observe()
    raise AssertionError("the stage does not end")


async def test_a_failed_deployment_is_released_and_the_next_one_follows(at: Stand) -> None:
    await through(at)
    assert workflow(at).stage is DEPLOY and record(at).status is Status.READY
    assert changes(at) == ["release"]


async def test_the_release_has_farriers_comment_and_erases_nothing(at: Stand) -> None:
    await at.settle()
    requested = [event for event in at.region.events.of(at.node.maas_id) if event.type == "User releasing node"]
    assert [event.description for event in requested] == [
        f"(admin) - farrier onboarding 11 {MARK}: release after deploy 1"
    ]
    assert record(at).status is Status.RELEASING


async def test_the_stage_waits_for_the_observation_without_requests_to_maas(at: Stand) -> None:
    settled = await at.settle()
    assert isinstance(settled, Waiting) and settled.timed
    at.world.observed.requests.clear()
    at.observe()
    assert not asks(at) and isinstance(await at.once(), Waiting)
    assert at.world.observed.operations == []


async def test_a_reading_from_before_the_release_does_not_end_the_wait(at: Stand) -> None:
    at.observe()  # still failed
    await at.settle()
    assert not asks(at)


async def test_a_release_whose_response_was_lost_is_not_sent_again(at: Stand) -> None:
    at.region.faults.add(Fault(op="release", broken=Broken.DROP))
    assert isinstance(await at.once(), Waiting)
    await through(at)
    assert workflow(at).stage is DEPLOY and changes(at) == ["release"]


async def test_a_stuck_deployment_is_aborted_before_the_release(at: Stand) -> None:
    record(at).status = Status.DEPLOYING
    await through(at)
    assert workflow(at).stage is DEPLOY and changes(at) == ["abort", "release"]
    aborted = [event.description for event in at.region.events.of(at.node.maas_id) if "aborting" in event.type]
    assert aborted == [f"(admin) - farrier onboarding 11 {MARK}: abort deploy 1"]


@pytest.mark.parametrize("status", [Status.DEPLOYING, Status.FAILED_DEPLOYMENT, Status.ALLOCATED])
async def test_a_later_deployment_of_another_client_with_farriers_key_is_not_undone(at: Stand, status: Status) -> None:
    record(at).status = Status.READY
    await at.world.client.do(await read(at), Deploy(user_data="", comment="by hand"))
    at.world.observed.requests.clear()
    record(at).status = status
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT
    assert changes(at) == [] and record(at).status is status


async def test_a_slow_abort_is_not_sent_again(at: Stand) -> None:
    record(at).status = Status.DEPLOYING
    await at.settle()
    at.observe()
    assert at.node.maas is not None and at.node.maas.status == Status.DEPLOYING.value
    assert not asks(at)


async def test_an_abort_whose_response_was_lost_is_not_sent_again(at: Stand) -> None:
    record(at).status = Status.DEPLOYING
    at.region.faults.add(Fault(op="abort", broken=Broken.DROP))
    at.region.durations = Durations()
    assert isinstance(await at.once(), Waiting)
    await through(at)
    assert changes(at) == ["abort", "release"]


async def test_a_machine_that_is_already_ready_completes_the_stage_without_a_request(at: Stand) -> None:
    record(at).status, record(at).owner = Status.READY, None
    assert isinstance(await at.settle(), Done)
    assert workflow(at).stage is DEPLOY and changes(at) == []


async def test_the_stage_waits_for_a_release_that_is_in_progress(at: Stand) -> None:
    record(at).status = Status.RELEASING
    assert isinstance(await at.settle(), Waiting)
    assert changes(at) == [] and not asks(at)


async def test_a_release_that_failed_is_requested_again(at: Stand) -> None:
    record(at).status = Status.RELEASING_FAILED
    await through(at)
    assert workflow(at).stage is DEPLOY and changes(at) == ["release"]


async def test_a_machine_that_ends_as_new_is_commissioned_again(at: Stand) -> None:
    record(at).status, record(at).owner = Status.NEW, None
    assert isinstance(await at.once(), StageStep)
    assert workflow(at).stage is OnboardingStage.COMMISSION_NODE and changes(at) == []


async def test_a_deployment_that_succeeded_after_all_is_kept(at: Stand) -> None:
    record(at).status = Status.DEPLOYED
    assert isinstance(await at.once(), StageStep)
    assert workflow(at).stage is OnboardingStage.WAIT_FOR_DEPLOYED and changes(at) == []


async def test_another_attempt_calls_the_region_again(at: Stand) -> None:
    await at.settle()
    assert not asks(at)
    taken_up_again(at, attempt=2)
    assert asks(at)


async def test_a_bmc_that_does_not_respond_fails_the_attempt_without_a_change(at: Stand) -> None:
    at.region.default_nature = Nature(bmc_error="no route")
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.POWER_FAILED
    assert record(at).status is Status.FAILED_DEPLOYMENT


@pytest.mark.parametrize("status", [Status.BROKEN, Status.RESCUE_MODE, Status.COMMISSIONING, Status.RETIRED])
async def test_a_machine_in_any_other_status_is_a_disagreement(at: Stand, status: Status) -> None:
    record(at).status = status
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT
    assert changes(at) == []


async def test_a_locked_machine_fails_the_stage(at: Stand) -> None:
    record(at).locked = True
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.UPSTREAM_REFUSED


async def test_the_stage_keeps_the_counts_of_failures(at: Stand) -> None:
    at.node = with_note(at.node, failed_deploys=3, datasource_retries=1)
    await through(at)
    assert (memo(at).failed_deploys, memo(at).datasource_retries, memo(at).deploys) == (3, 1, 1)
