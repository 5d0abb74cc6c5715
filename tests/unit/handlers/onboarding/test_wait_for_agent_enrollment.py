"""Stage `wait_for_agent_enrollment`: waits for the agent of this installation while the machine stays deployed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Failed, Waiting, with_fields
from farrier.handlers.node.workflow.stages import run_stage
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.health import Health, SshSeed
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus, OnboardingMode
from farrier.model.node.snapshot import Agent, Bmc, Onboarding, StopRequest
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import OPERATOR, DeployFate, Fault, Nature, Status
from tests.support.deployments import MINUTE, SECOND, entered, issue, memo, on_ready, record, taken_up_again
from tests.support.stages import Stand

STAGE = OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT
HOUR = timedelta(hours=1)


@pytest.fixture
async def at(stand: Stand) -> Stand:
    """A node that this workflow has just deployed, and whose first boot will fail."""
    await on_ready(stand, OnboardingStage.DEPLOY_VIA_MAAS)
    await issue(stand)
    stand.region.default_nature = Nature(deploy=DeployFate.CLOUD_INIT_FAILS)
    await stand.settle()
    stand.pass_time(HOUR)
    entered(stand, STAGE)
    stand.world.observed.requests.clear()
    return stand


def enrols(at: Stand, enrolled_at: datetime) -> None:
    at.node = with_fields(at.node, agent=Agent(enrolled_at=enrolled_at, last_heartbeat_at=at.now))


def asked_at(at: Stand) -> datetime:
    asked = memo(at).asked_at
    assert asked is not None
    return asked


async def test_an_agent_that_enrolled_since_the_deployment_request_completes_the_stage(at: Stand) -> None:
    enrols(at, asked_at(at) + SECOND)
    assert isinstance(await at.once(), Done)
    assert at.world.observed.operations == []


@pytest.mark.parametrize("status", [NodeStatus.ENROLLING, NodeStatus.RETIRED, NodeStatus.QUARANTINED])
async def test_an_agent_of_an_earlier_installation_does_not_complete_the_stage(at: Stand, status: NodeStatus) -> None:
    at.node = with_fields(at.node, status=status)
    enrols(at, asked_at(at) - SECOND)
    settled = await at.once()
    assert isinstance(settled, Waiting) and settled.reason == "waits for the agent to enrol"


async def test_in_mode_manual_an_earlier_agent_completes_the_stage(at: Stand) -> None:
    at.onboards(STAGE, mode=OnboardingMode.MANUAL)
    enrols(at, at.now - HOUR)
    assert isinstance(await at.once(), Done)


# --- the machine


@pytest.mark.parametrize("status", [Status.READY, Status.RELEASING, Status.RESCUE_MODE, Status.BROKEN])
async def test_a_machine_that_is_no_longer_deployed_fails_the_stage(at: Stand, status: Status) -> None:
    record(at).status = status
    at.observe()
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT


async def test_a_machine_that_another_user_holds_fails_the_stage(at: Stand) -> None:
    record(at).owner = OPERATOR.username
    at.observe()
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.STATE_DISAGREEMENT


@pytest.mark.parametrize("mode", [OnboardingMode.DEPLOY, OnboardingMode.ADOPT, OnboardingMode.MANUAL])
async def test_a_machine_that_was_deleted_fails_the_stage(at: Stand, mode: OnboardingMode) -> None:
    at.onboards(STAGE, mode=mode, memo=memo(at))
    at.region.forget(record(at))
    at.observe()
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.MACHINE_DELETED_UPSTREAM


async def test_a_reading_from_before_the_stage_began_is_ignored(at: Stand) -> None:
    record(at).status = Status.DEPLOYING
    at.observe()
    record(at).status = Status.DEPLOYED
    entered(at, OnboardingStage.RENDER_CLOUD_INIT)
    entered(at, STAGE)
    assert isinstance(await at.once(), Waiting)


async def test_an_adopted_machine_may_be_held_by_any_user(at: Stand) -> None:
    at.onboards(STAGE, mode=OnboardingMode.ADOPT)
    record(at).owner = OPERATOR.username
    enrols(at, at.now)
    at.observe()
    assert isinstance(await at.once(), Done)


# --- agentless


async def test_an_agentless_node_needs_fresh_readings_of_its_power_and_its_machine(at: Stand) -> None:
    at.node = with_fields(at.node, agentless=True, bmc=Bmc(power=PowerState.ON, power_at=at.now))
    settled = await at.once()
    assert isinstance(settled, Waiting) and "MAAS" in settled.reason
    at.observe()
    assert isinstance(await at.once(), Done)
    at.now += 6 * MINUTE  # the reading is stale then
    assert isinstance(await at.once(), Waiting)


# --- no agent in time


async def test_before_the_deadline_no_request_is_sent(at: Stand) -> None:
    at.now += 29 * MINUTE
    assert isinstance(await at.once(), Waiting)
    assert at.world.observed.operations == []


async def test_after_the_deadline_the_failure_of_the_first_boot_is_reported(at: Stand) -> None:
    at.now += 31 * MINUTE
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.TIMEOUT
    assert settled.detail == (
        "waits for the agent to enrol; events in MAAS since its first boot: Node post-installation failure: "
        "'cloudinit' running modules for final"
    )
    assert at.world.observed.operations == ["events"]


async def test_an_agent_that_enrols_after_the_deadline_still_counts(at: Stand) -> None:
    at.now += 31 * MINUTE
    enrols(at, at.now)
    assert isinstance(await at.once(), Done)


async def test_a_region_that_does_not_respond_does_not_extend_the_wait(at: Stand) -> None:
    at.region.faults.add(Fault(times=None, status=502))
    at.now += 31 * MINUTE
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.TIMEOUT
    assert settled.detail == "waits for the agent to enrol"


async def test_the_next_attempt_waits_again(at: Stand) -> None:
    at.now += 31 * MINUTE
    taken_up_again(at, attempt=2)
    assert isinstance(await at.once(), Waiting)


async def test_without_a_deployment_the_stage_itself_has_no_deadline(at: Stand) -> None:
    at.onboards(STAGE, mode=OnboardingMode.MANUAL)
    at.now += 31 * MINUTE
    assert isinstance(run_stage(at.node, at.now, at.policy), Waiting)


async def test_a_repeatedly_failed_ssh_seed_is_reported(at: Stand) -> None:
    enrols(at, at.now)
    assert at.node.agent is not None
    at.node = with_fields(at.node, agent=replace(at.node.agent, ssh_seed_failures=3))
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.SSH_SEED_FAILED_REPEATEDLY
    assert isinstance(at.node.workflow, Onboarding)


async def test_a_node_whose_ssh_seed_failed_stays_in_its_onboarding_until_the_seed_succeeds(at: Stand) -> None:
    enrols(at, at.now)
    assert at.node.agent is not None
    for failures in (1, 2):
        failed = replace(at.node.agent, health=Health(ssh_seed=SshSeed.FAILED), ssh_seed_failures=failures)
        at.node = with_fields(at.node, agent=failed)
        settled = await at.once()
        assert isinstance(settled, Waiting) and "SSH seed" in settled.reason
    at.node = with_fields(at.node, agent=replace(failed, health=Health(ssh_seed=SshSeed.OK), ssh_seed_failures=0))
    assert isinstance(await at.once(), Done)


async def test_an_expired_token_needs_an_operator_at_once(at: Stand) -> None:
    at.pass_time(at.site.deploy.bootstrap_ttl)
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.TIMEOUT
    assert "token" in settled.detail and "another deployment" in settled.detail
    assert settled.stop is StopRequest.FAILED


async def test_the_expiry_of_a_used_token_does_not_matter(at: Stand) -> None:
    enrols(at, asked_at(at) + SECOND)
    at.pass_time(at.site.deploy.bootstrap_ttl)  # its heartbeats are too old then
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.stop is None and "token" not in settled.detail
