"""Stage `classify_deploy_failure`: finds the cause, and whether and when another deployment follows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.config.sites import DeploySite
from farrier.handlers.node.changes import (
    Done,
    Failed,
    ServiceCall,
    Settled,
    StageStep,
    Waiting,
    with_note,
    with_workflow,
)
from farrier.handlers.node.workflow.stages import run_stage
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import DeployFate, Fault, Nature, Status
from tests.support.deployments import changes, entered, issue, memo, on_ready, record, taken_up_again, workflow
from tests.support.stages import Stand

STAGE = OnboardingStage.CLASSIFY_DEPLOY_FAILURE
RECOVER = OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY
HOUR = timedelta(hours=1)


@pytest.fixture
async def at(stand: Stand) -> Stand:
    await on_ready(stand, OnboardingStage.DEPLOY_VIA_MAAS)
    await issue(stand)
    return stand


async def after(at: Stand, fate: DeployFate, *, time: timedelta = 2 * HOUR) -> None:
    """End the deployment with this fate, and enter the stage."""
    at.region.default_nature = Nature(deploy=fate)
    assert isinstance(await at.settle(), Done)
    at.pass_time(time)
    at.node = with_note(at.node, failed_deploys=1)
    entered(at, STAGE)
    at.world.observed.requests.clear()


async def judged(at: Stand) -> Settled:
    settled = await at.once()
    assert changes(at) == []
    return settled


def failed(settled: Settled, failure: FailureClass) -> str:
    assert isinstance(settled, Failed) and settled.failure is failure, settled
    return settled.detail


async def test_a_second_run_reports_the_same_cause(at: Stand) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    assert failed(await judged(at), FailureClass.DEPLOY_FAILED) == failed(await judged(at), FailureClass.DEPLOY_FAILED)
    assert memo(at).failed_deploys == 1


# --- the datasource


async def test_a_failure_of_the_datasource_is_retried_at_once(at: Stand) -> None:
    await after(at, DeployFate.NO_DATASOURCE)
    settled = await judged(at)
    assert isinstance(settled, StageStep) and "datasource" in settled.reason
    assert (workflow(at).stage, memo(at).datasource_retries) == (RECOVER, 1)


@pytest.mark.parametrize(("allowed", "used"), [(2, 2), (0, 0), (1, 2)])
async def test_a_datasource_that_failed_too_often_needs_an_operator(at: Stand, allowed: int, used: int) -> None:
    at.use(deploy=DeploySite(max_datasource_retries=allowed))
    await after(at, DeployFate.NO_DATASOURCE)
    at.node = with_note(at.node, datasource_retries=used)
    failed(await judged(at), FailureClass.DATASOURCE_FAILED_REPEATEDLY)


# --- another attempt


async def test_the_next_attempt_starts_another_deployment_without_a_request(at: Stand) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    at.node = with_note(at.node, failed_deploys=3, datasource_retries=1)
    taken_up_again(at, attempt=4)
    assert not isinstance(run_stage(at.node, at.now, at.policy), ServiceCall)
    assert isinstance(await judged(at), StageStep)
    assert (workflow(at).stage, workflow(at).attempt) == (RECOVER, 1)
    assert (memo(at).failed_deploys, memo(at).datasource_retries) == (3, 1)


async def test_an_attempt_of_an_operator_resets_the_counts(at: Stand) -> None:
    await after(at, DeployFate.NO_DATASOURCE)
    at.node = with_note(at.node, failed_deploys=5, datasource_retries=2)
    taken_up_again(at, attempt=1)
    assert isinstance(await judged(at), StageStep) and workflow(at).stage is RECOVER
    assert (memo(at).failed_deploys, memo(at).datasource_retries) == (0, 0)


async def test_the_attempt_in_which_the_stage_begins_starts_no_other_deployment(at: Stand) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    at.node = with_workflow(with_note(at.node, failed_deploys=4), attempt=4)
    failed(await judged(at), FailureClass.DEPLOY_FAILED)


# --- the machine has changed since


async def test_a_stuck_deployment_times_out_and_reports_where_it_is_stuck(at: Stand) -> None:
    await after(at, DeployFate.SUCCEEDS, time=timedelta(minutes=7))
    assert record(at).status is Status.DEPLOYING
    detail = failed(await judged(at), FailureClass.TIMEOUT)
    assert "stuck" in detail and "install" in detail


async def test_a_deployment_stuck_without_its_datasource_is_retried_at_once(at: Stand) -> None:
    await after(at, DeployFate.NO_DATASOURCE, time=timedelta(minutes=30))
    assert record(at).status is Status.DEPLOYING
    assert isinstance(await judged(at), StageStep) and workflow(at).stage is RECOVER


async def test_a_deployment_that_succeeded_after_all_returns_to_wait_for_deployed(at: Stand) -> None:
    await after(at, DeployFate.SUCCEEDS)
    assert isinstance(await judged(at), StageStep) and workflow(at).stage is OnboardingStage.WAIT_FOR_DEPLOYED


@pytest.mark.parametrize(
    "status", [Status.FAILED_DEPLOYMENT, Status.READY, Status.NEW, Status.RELEASING, Status.RELEASING_FAILED]
)
async def test_the_cause_fails_the_stage_even_if_the_machine_was_released_since(at: Stand, status: Status) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    record(at).status = status
    assert failed(await judged(at), FailureClass.DEPLOY_FAILED).startswith("storage: ")


async def test_a_deployment_that_another_client_aborted_is_a_disagreement(at: Stand) -> None:
    await after(at, DeployFate.SUCCEEDS, time=timedelta(minutes=7))
    record(at).status = Status.ALLOCATED
    assert "aborted" in failed(await judged(at), FailureClass.STATE_DISAGREEMENT)


async def test_a_deployment_that_maas_aborted_without_power_failed_for_power(at: Stand) -> None:
    await after(at, DeployFate.NEVER_NETBOOTS, time=timedelta(minutes=1))
    at.region.note(record(at), "Failed to query node's BMC", "Aborting DEPLOYING and reverting to ALLOCATED")
    record(at).status = Status.ALLOCATED
    assert failed(await judged(at), FailureClass.DEPLOY_FAILED).startswith("power: ")


@pytest.mark.parametrize("status", [Status.BROKEN, Status.RESCUE_MODE, Status.COMMISSIONING, Status.DISK_ERASING])
async def test_a_machine_in_any_other_status_is_a_disagreement(at: Stand, status: Status) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    record(at).status = status
    failed(await judged(at), FailureClass.STATE_DISAGREEMENT)


async def test_events_that_cannot_be_read_are_read_again(at: Stand) -> None:
    await after(at, DeployFate.STORAGE_FAILS)
    at.region.faults.add(Fault(path="*/events/*", times=None, status=503, headers={"Retry-After": "10"}))
    settled = await judged(at)
    assert isinstance(settled, Waiting | Failed) and memo(at).failed_deploys == 1
    at.region.faults.clear()
    failed(await judged(at), FailureClass.DEPLOY_FAILED)
