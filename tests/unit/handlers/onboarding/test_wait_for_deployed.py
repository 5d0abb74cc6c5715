"""Stage `wait_for_deployed`: decides on the observations of the region's observer, and sends no requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.handlers.node.changes import Done, Failed, StageStep, Waiting, with_fields, with_note
from farrier.model.machine.bmc import PowerState
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Management
from farrier.model.node.snapshot import Bmc
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import DeployFate, Nature, Status
from tests.support.deployments import MINUTE, entered, issue, memo, on_ready, record, workflow
from tests.support.stages import SITE, Stand

STAGE = OnboardingStage.WAIT_FOR_DEPLOYED
JUDGE = OnboardingStage.CLASSIFY_DEPLOY_FAILURE
HOUR = timedelta(hours=1)


@pytest.fixture
async def at(stand: Stand) -> Stand:
    """A node whose deployment was just requested."""
    await on_ready(stand, OnboardingStage.DEPLOY_VIA_MAAS)
    await issue(stand)
    await stand.settle()
    entered(stand, STAGE)
    stand.world.observed.requests.clear()
    return stand


async def look(at: Stand, **fields: Any) -> Done | Failed | Waiting | StageStep:
    """The stage's result for the machine as it is now; asserts that the stage sends no request."""
    at.observe(**fields)
    settled = await at.once()
    assert at.world.observed.operations == []
    return settled


async def test_a_deployed_machine_completes_the_stage_and_its_first_reading_is_recorded(at: Stand) -> None:
    at.pass_time(HOUR)
    synced = at.now - MINUTE
    settled = await look(at, last_sync=synced)
    assert isinstance(settled, Done)
    assert at.node.maas is not None
    assert (memo(at).deployed_at, memo(at).synced_at) == (at.node.maas.read_at, synced)


async def test_a_second_run_keeps_the_first_recorded_reading(at: Stand) -> None:
    at.pass_time(HOUR)
    await look(at, last_sync=at.now)
    first = memo(at)
    at.pass_time(HOUR)
    assert isinstance(await look(at, last_sync=at.now), Done)
    assert memo(at) == first


async def test_a_reading_of_an_older_deployment_does_not_date_this_deployment(at: Stand) -> None:
    at.pass_time(HOUR)
    asked_at = memo(at).asked_at
    assert asked_at is not None
    await look(at, since=asked_at - HOUR)
    assert at.node.maas is not None and memo(at).deployed_at == at.node.maas.read_at


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({}, "starting the machine"),
        ({"status_message": "Deploying - "}, "starting the machine"),
        ({"status_message": "Loading ephemeral - "}, "booting the installer"),
        ({"status_message": "Configuring storage - "}, "installing"),
        ({"status_message": "Configuring OS - "}, "installing"),
        ({"status_message": "Rebooting - "}, "booting the installed system"),
        ({"status_message": "Who knows", "netboot": False}, "booting the installed system"),
    ],
)
async def test_the_wait_names_the_phase_of_the_deployment_and_has_no_deadline_of_the_stage(
    at: Stand, fields: dict[str, Any], phase: str
) -> None:
    settled = await look(at, **fields)
    assert isinstance(settled, Waiting) and not settled.timed
    assert settled.reason == f"waits for MAAS to deploy the machine: {phase}"


# --- failures


async def test_a_failed_deployment_is_counted_and_classified(at: Stand) -> None:
    at.region.default_nature = Nature(deploy=DeployFate.STORAGE_FAILS)
    at.pass_time(HOUR)
    assert record(at).status is Status.FAILED_DEPLOYMENT
    assert isinstance(await look(at), StageStep)
    assert (workflow(at).stage, workflow(at).attempt, memo(at).failed_deploys) == (JUDGE, 1, 1)


async def test_the_classification_of_the_fourth_failure_is_the_fourth_attempt(at: Stand) -> None:
    at.node = with_note(at.node, failed_deploys=3)
    record(at).status = Status.FAILED_DEPLOYMENT
    await look(at)
    assert (workflow(at).stage, workflow(at).attempt) == (JUDGE, 4)


async def test_an_aborted_deployment_is_classified(at: Stand) -> None:
    record(at).status = Status.ALLOCATED
    assert isinstance(await look(at), StageStep) and workflow(at).stage is JUDGE


async def test_a_deployment_that_takes_too_long_is_classified_while_it_continues(at: Stand) -> None:
    at.now += timedelta(minutes=89)
    assert isinstance(await look(at), Waiting)
    at.now += timedelta(minutes=2)
    assert isinstance(await look(at), StageStep)
    assert workflow(at).stage is JUDGE and memo(at).failed_deploys == 1


async def test_the_time_counts_from_the_request_even_if_the_stage_is_entered_again(at: Stand) -> None:
    at.now += timedelta(minutes=91)
    entered(at, STAGE)
    assert isinstance(await look(at), StageStep) and workflow(at).stage is JUDGE


async def test_no_deployment_is_ended_before_maas_would_end_it(at: Stand) -> None:
    assert SITE.maas is not None
    at.use(maas=msgspec.structs.replace(SITE.maas, node_timeout=timedelta(minutes=60)))
    at.now += timedelta(minutes=110)
    assert isinstance(await look(at), Waiting)
    at.now += timedelta(minutes=11)
    assert isinstance(await look(at), StageStep)


@pytest.mark.parametrize(
    "status",
    [
        Status.READY,
        Status.NEW,
        Status.RELEASING,
        Status.BROKEN,
        Status.RESCUE_MODE,
        Status.COMMISSIONING,
        Status.FAILED_COMMISSIONING,
        Status.DISK_ERASING,
        Status.RESERVED,
        Status.RELEASING_FAILED,
    ],
)
async def test_a_status_to_which_no_deployment_leads_is_a_disagreement(at: Stand, status: Status) -> None:
    record(at).status = status
    settled = await look(at)
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT
    assert status.label in settled.detail


async def test_the_stage_waits_while_the_status_is_unknown(at: Stand) -> None:
    settled = await look(at, state="unknown", status=99, status_name="Sleeping")
    assert isinstance(settled, Waiting) and settled.timed and "Sleeping" in settled.reason


async def test_a_deployment_whose_power_action_was_lost_is_classified_before_its_deadline(at: Stand) -> None:
    off = Bmc(power=PowerState.OFF, power_at=at.now + timedelta(minutes=6))
    at.node = with_fields(at.node, management=Management.MANAGEABLE, bmc=off)
    at.pass_time(timedelta(minutes=6))
    settled = await look(at, power_state="off")
    assert isinstance(settled, StageStep) and "did not switch it on" in settled.reason
    assert settled.to.live.stage is OnboardingStage.CLASSIFY_DEPLOY_FAILURE
