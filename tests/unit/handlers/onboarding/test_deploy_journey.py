"""A deployment and its detours, run by the handler itself from stage to stage: their limits, and the changes sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from farrier.handlers.node.changes import with_fields
from farrier.handlers.node.maas import cloud_init
from farrier.model.intents.actions import Action
from farrier.model.node.failures import MAX_ATTEMPTS
from farrier.model.node.layers import NodeStatus
from farrier.model.node.snapshot import Agent
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import DeployFate, Durations, Nature, Region, Status
from tests.support.deployments import Journey, changes, memo, on_ready, record, sent, workflow
from tests.support.stages import Stand, stand

DETOUR = [O.CLASSIFY_DEPLOY_FAILURE, O.RECOVER_FOR_DATASOURCE_RETRY, O.DEPLOY_VIA_MAAS, O.RENDER_CLOUD_INIT]
ENROLS = O.WAIT_FOR_AGENT_ENROLLMENT
# Longer than any wait of MAAS or of a stage.
FOR_EVER = timedelta(days=30)


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    """A node whose user data is rendered next, in a region that takes some time to switch power."""
    async with stand(Region(durations=Durations(power=timedelta(seconds=20)))) as at:
        await on_ready(at, O.RENDER_CLOUD_INIT)
        at.region.advance(timedelta(hours=1))
        yield at


def fates(at: Stand, fate: DeployFate) -> None:
    at.region.default_nature = Nature(deploy=fate)


async def test_a_datasource_that_fails_once_is_retried_with_a_new_token(at: Stand) -> None:
    fates(at, DeployFate.NO_DATASOURCE)
    journey = Journey(at)
    await journey.until(O.RECOVER_FOR_DATASOURCE_RETRY)
    fates(at, DeployFate.SUCCEEDS)
    await journey.until(O.WAIT_FOR_HARDWARE_SYNC_HEALTHY)
    assert journey.stages[2:6] == DETOUR
    assert journey.failures == [] and changes(at) == ["deploy", "release", "deploy"]
    assert memo(at).token == cloud_init.digest(await cloud_init.token(at.services, at.site, at.node, 2))


async def test_a_datasource_that_fails_repeatedly_needs_an_operator(at: Stand) -> None:
    fates(at, DeployFate.NO_DATASOURCE)
    journey = Journey(at)
    await journey.until()
    assert journey.failures == ["datasource_failed_repeatedly"]
    assert sent(at, "deploy") == 1 + at.site.deploy.max_datasource_retries
    assert workflow(at).stage is O.CLASSIFY_DEPLOY_FAILURE and record(at).status is Status.FAILED_DEPLOYMENT


async def test_a_retry_of_an_operator_resets_the_count_of_deployments(at: Stand) -> None:
    fates(at, DeployFate.NO_DATASOURCE)
    journey = Journey(at)
    await journey.until()
    at.world.observed.requests.clear()
    assert await journey.ask(Action.RETRY_STAGE) == "accepted"
    await journey.until()
    assert sent(at, "deploy") == 1 + at.site.deploy.max_datasource_retries


@pytest.mark.parametrize("fate", [DeployFate.STORAGE_FAILS, DeployFate.NEVER_NETBOOTS, DeployFate.NEVER_REPORTS])
async def test_any_other_failure_is_retried_a_bounded_number_of_times(at: Stand, fate: DeployFate) -> None:
    fates(at, fate)
    journey = Journey(at)
    await journey.until()
    assert journey.failures == ["deploy_failed"] * MAX_ATTEMPTS
    assert sent(at, "deploy") == MAX_ATTEMPTS


async def test_a_deployment_that_never_ends_is_aborted_and_retried_a_bounded_number_of_times(at: Stand) -> None:
    at.region.durations = Durations(deploy=FOR_EVER, node_timeout=FOR_EVER)
    journey = Journey(at)
    await journey.until(minutes=1000)
    assert journey.failures == ["timeout"] * MAX_ATTEMPTS
    assert (sent(at, "deploy"), sent(at, "abort"), sent(at, "release")) == (MAX_ATTEMPTS, 4, 4)


async def test_a_node_that_was_reimaged_is_deployed_by_the_same_stages(at: Stand) -> None:
    earlier = Agent(enrolled_at=at.now - timedelta(days=9), last_heartbeat_at=at.now)
    at.node = with_fields(at.node, status=NodeStatus.RETIRED, ever_active=True, ever_onboarded=True, agent=earlier)
    journey = Journey(at)
    await journey.until(O.WAIT_FOR_HARDWARE_SYNC_HEALTHY)
    assert at.node.status is NodeStatus.RETIRED
    synced = at.now + timedelta(minutes=16)
    at.pass_time(timedelta(minutes=16))
    at.observe(enable_hw_sync=True, sync_interval=900.0, last_sync=synced)
    await journey.until(ENROLS)
    assert workflow(at).stage is ENROLS  # heartbeats of the earlier agent do not count
    at.node = with_fields(at.node, agent=Agent(enrolled_at=at.now, last_heartbeat_at=at.now))
    await journey.rest()
    assert at.node.status in (NodeStatus.OFFLINE, NodeStatus.ACTIVE)
