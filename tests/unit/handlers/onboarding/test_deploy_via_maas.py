"""Stage `deploy_via_maas`: requests one deployment, and distinguishes it from deployments of other clients."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.config.sites import CloudInitSite, DeploySite
from farrier.handlers.node.changes import Done, Failed, StageStep, Waiting, with_fields, with_note
from farrier.handlers.node.maas import cloud_init
from farrier.handlers.node.onboarding import deployment
from farrier.model.maas.changes import Deploy, Release
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.stages import OnboardingStage
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import IssueBootstrap
from farrier.sim.maas import Broken, DeployFate, Fault, Nature, Status
from tests.support.deployments import changes, issue, memo, on_ready, read, record, sent, taken_up_again, workflow
from tests.support.handled import Handled
from tests.support.nodes import MARK, Secrets
from tests.support.stages import Stand

STAGE = OnboardingStage.DEPLOY_VIA_MAAS
RENDER = OnboardingStage.RENDER_CLOUD_INIT
HOUR = timedelta(hours=1)
DISAGREES = FailureClass.STATE_DISAGREEMENT


@pytest.fixture
async def at(stand: Stand) -> Stand:
    await on_ready(stand, STAGE)
    await issue(stand)
    return stand


def lose_answers(at: Stand) -> None:
    at.region.faults.add(Fault(op="deploy", broken=Broken.DROP))


async def deploys(at: Stand, comment: str) -> None:
    """Request a deployment as another client with farrier's key."""
    await at.world.client.do(await read(at), Deploy(user_data="", comment=comment))
    at.world.observed.requests.clear()


async def test_a_ready_machine_is_deployed_as_the_site_configures(at: Stand) -> None:
    at.use(deploy=DeploySite(distro_series="ubuntu/jammy", hwe_kernel="hwe-22.04"))
    asked_at = at.now
    settled = await at.settle()
    assert isinstance(settled, Done)
    assert (memo(at).deploys, memo(at).asked_at) == (1, asked_at)
    machine = record(at)
    assert (machine.status, machine.owner) == (Status.DEPLOYING, "admin")
    assert (machine.distro_series, machine.hwe_kernel, machine.agent_name) == ("jammy", "hwe-22.04", "farrier")
    assert machine.enable_hw_sync
    assert at.world.observed.operations == ["machine", "deploy"]


async def test_the_user_data_has_the_token_that_was_issued(at: Stand) -> None:
    await at.settle()
    sent_data = base64.b64decode(record(at).user_data or "").decode()
    token = sent_data.rsplit("token: ", 1)[1].strip()
    assert sent_data.startswith("#cloud-config") and cloud_init.digest(token) == memo(at).token


async def test_no_outcome_contains_the_token(at: Stand) -> None:
    token = await cloud_init.token(at.services, at.site, at.node, 1)
    assert token not in repr(await at.settle())


async def test_hardware_sync_is_requested_only_if_the_site_configures_it(at: Stand) -> None:
    at.use(deploy=DeploySite(hardware_sync=False))
    await at.settle()
    assert not record(at).enable_hw_sync


async def test_a_machine_that_farriers_user_already_holds_is_deployed(at: Stand) -> None:
    record(at).status, record(at).owner = Status.ALLOCATED, "admin"
    assert isinstance(await at.settle(), Done)
    assert record(at).status is Status.DEPLOYING


# --- the token


async def test_a_token_that_was_not_issued_returns_the_workflow_to_the_stage_that_issues_it(at: Stand) -> None:
    at.services = replace(at.services, credentials=Secrets())
    at.node = with_note(at.node, token=cloud_init.digest("of a key that was rotated"))
    settled = await at.once()
    assert isinstance(settled, StageStep) and workflow(at).stage is RENDER
    assert sent(at, "deploy") == 0


async def test_an_expired_token_is_issued_again(at: Stand) -> None:
    at.now += at.site.deploy.bootstrap_ttl
    settled = await at.once()
    assert isinstance(settled, StageStep) and workflow(at).stage is RENDER and sent(at, "deploy") == 0
    assert not memo(at).has_deployed, "no deployment was requested"
    at.onboards(RENDER, memo=memo(at))
    assert isinstance(await at.settle(), Done)
    assert at.writes == [IssueBootstrap(memo(at).token or "", at.site.deploy.bootstrap_ttl)]
    at.onboards(STAGE, memo=memo(at))
    assert isinstance(await at.settle(), Done) and record(at).status is Status.DEPLOYING


@pytest.mark.parametrize("template", ["", "#cloud-config\nhostname: {{ node.name }}\n"])
async def test_user_data_without_a_token_needs_none(at: Stand, template: str) -> None:
    at.use(cloud_init=CloudInitSite(template=template))
    at.node = with_note(at.node, token=None)
    at.services = replace(at.services, credentials=Secrets(None))  # the key of tokens does not resolve
    assert isinstance(await at.settle(), Done)
    assert base64.b64decode(record(at).user_data or "").decode() == template.replace("{{ node.name }}", "gpu-1")


async def test_an_agentless_node_is_deployed_without_a_token(at: Stand) -> None:
    at.node = with_fields(with_note(at.node, token=None), agentless=True)
    assert isinstance(await at.settle(), Done)


async def test_a_key_that_does_not_resolve_fails_the_stage_unless_the_cause_is_temporary(at: Stand) -> None:
    at.services = replace(at.services, credentials=Secrets(None))
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.NO_CREDENTIALS
    at.services = replace(at.services, credentials=Secrets(None, temporary=True))
    assert isinstance(await at.once(), Waiting)
    assert sent(at, "deploy") == 0


async def test_a_template_that_fails_is_reported_as_invalid_configuration(at: Stand) -> None:
    at.use(cloud_init=CloudInitSite(template="#cloud-config\n{{ node.labels.rack }} {{ bootstrap_token }}"))
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.INVALID_CONFIG
    assert sent(at, "deploy") == 0


# --- repeated runs


async def test_a_deployment_whose_response_was_lost_is_recognised_and_not_sent_again(at: Stand) -> None:
    lose_answers(at)
    lost = await at.once()
    assert isinstance(lost, Waiting) and memo(at).deploys == 0
    assert isinstance(await at.settle(), Done)
    assert memo(at).deploys == 1 and memo(at).asked_at is not None
    assert sent(at, "deploy") == 1


async def test_after_a_lost_response_the_deployment_is_dated_to_the_entry_of_the_stage(at: Stand) -> None:
    entered_at = workflow(at).stage_entered_at
    lose_answers(at)
    await at.once()
    at.pass_time(HOUR)
    await at.settle()
    assert record(at).status is Status.DEPLOYED and memo(at).asked_at == entered_at


async def test_a_failed_deployment_whose_response_was_lost_is_classified(at: Stand) -> None:
    at.region.default_nature = Nature(deploy=DeployFate.STORAGE_FAILS)
    lose_answers(at)
    await at.once()
    at.pass_time(HOUR)
    settled = await at.once()
    assert isinstance(settled, StageStep)
    assert workflow(at).stage is OnboardingStage.CLASSIFY_DEPLOY_FAILURE and memo(at).deploys == 1


async def test_a_rerun_after_the_deployment_sends_no_request(at: Stand) -> None:
    await at.settle()
    asked_at = memo(at).asked_at
    at.pass_time(HOUR)
    at.onboards(STAGE, memo=memo(at))
    assert isinstance(await at.settle(), Done)
    assert (sent(at, "deploy"), memo(at).deploys, memo(at).asked_at) == (1, 1, asked_at)


async def test_a_rerun_after_a_failed_deployment_recovers_with_counts_of_zero(at: Stand) -> None:
    at.region.default_nature = Nature(deploy=DeployFate.STORAGE_FAILS)
    await at.settle()
    at.pass_time(HOUR)
    at.onboards(STAGE, memo=memo(at))
    at.node = with_note(at.node, failed_deploys=5, datasource_retries=2)
    assert isinstance(await at.once(), StageStep)
    assert workflow(at).stage is OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY
    assert (memo(at).failed_deploys, memo(at).datasource_retries) == (0, 0)


# --- deployments of other clients


@pytest.mark.parametrize(
    "comment",
    [
        "by hand",
        f"farrier onboarding 10 {MARK}: deploy 1",
        f"farrier onboarding 11 {MARK}: deploy 12",
        "farrier onboarding 11 0ddba11000000000: deploy 1",
    ],
    ids=["by hand", "of another workflow", "of another number", "of another database's workflow"],
)
@pytest.mark.parametrize("fate", [DeployFate.SUCCEEDS, DeployFate.STORAGE_FAILS])
async def test_a_deployment_that_this_onboarding_did_not_request_is_not_changed(
    at: Stand, comment: str, fate: DeployFate
) -> None:
    at.region.default_nature = Nature(deploy=fate)
    await deploys(at, comment)
    at.region.advance(HOUR)
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is DISAGREES
    assert changes(at) == []


async def test_a_later_deployment_of_another_client_is_a_disagreement(at: Stand) -> None:
    await at.settle()
    at.region.advance(HOUR)
    await at.world.client.do(await read(at), Release(comment="by hand"))
    await deploys(at, "by hand")
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is DISAGREES


async def test_a_deployment_whose_start_is_pages_of_events_back_is_recognised(at: Stand) -> None:
    await at.settle()
    for _ in range(deployment.MOST_EVENTS + 1):
        at.region.note(record(at), "Node status event")
    assert isinstance(await at.settle(), Done)
    assert sent(at, "events") == 2 and sent(at, "deploy") == 1


async def test_a_deployment_without_events_is_a_disagreement(at: Stand) -> None:
    await at.settle()
    at.region.events.of(record(at).system_id).clear()
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is DISAGREES


async def test_a_deployment_that_was_undone_is_a_disagreement(at: Stand) -> None:
    await at.settle()
    at.node = with_note(at.node, disowned=1)
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is DISAGREES


@pytest.mark.parametrize(
    "status",
    [
        Status.NEW,
        Status.COMMISSIONING,
        Status.FAILED_COMMISSIONING,
        Status.BROKEN,
        Status.RESERVED,
        Status.RESCUE_MODE,
        Status.TESTING,
        Status.FAILED_TESTING,
        Status.RELEASING_FAILED,
        Status.RETIRED,
    ],
)
async def test_a_machine_that_cannot_be_deployed_is_a_disagreement(at: Stand, status: Status) -> None:
    record(at).status = status
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is DISAGREES
    assert at.world.observed.operations == ["machine"]


@pytest.mark.parametrize("status", [Status.RELEASING, Status.DISK_ERASING])
async def test_the_stage_waits_while_the_machine_is_being_released(at: Stand, status: Status) -> None:
    record(at).status = status
    assert isinstance(await at.settle(), Waiting)
    assert sent(at, "deploy") == 0


# --- refusals of MAAS


async def test_an_unknown_image_is_refused_with_the_field_and_its_value(at: Stand) -> None:
    at.use(deploy=DeploySite(distro_series="hardy"))
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "distro_series" in settled.detail and "hardy" in settled.detail


async def test_a_machine_without_a_network_is_refused(at: Stand) -> None:
    for interface in record(at).interfaces:
        interface.links.clear()
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "network" in settled.detail and memo(at).deploys == 0


async def test_a_machine_whose_state_changes_before_the_request_is_read_again(at: Stand) -> None:
    text = b"Can't deploy a machine that is in the 'Deploying' state"
    at.region.faults.add(Fault(op="deploy", status=409, body=text, content_type="text/plain"))
    settled = await at.once()
    assert isinstance(settled, Waiting) and settled.requeue_after
    assert isinstance(await at.settle(), Done)


async def test_a_lack_of_addresses_spends_no_attempt_however_long_it_lasts(at: Stand) -> None:
    text = b"No more IPs available in subnet: 10.9.0.0/30"
    at.region.faults.add(Fault(op="deploy", status=503, body=text, content_type="text/plain", times=20))
    handled = Handled(at)
    await handled.rest()
    for _ in range(20):
        workflow = at.node.live
        assert (workflow.status, workflow.failure_class) == (W.FAILED_RETRYABLE, FailureClass.CAPACITY)
        assert workflow.attempt == 1 and workflow.next_attempt_at is not None
        at.pass_time(workflow.next_attempt_at - at.now)
        at.observe()
        await handled.rest()
    assert at.node.live.stage is O.WAIT_FOR_DEPLOYED


async def test_the_attempt_after_a_power_failure_repeats_the_same_deployment(at: Stand) -> None:
    at.region.default_nature = Nature(bmc_error="no route")
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.POWER_FAILED
    assert record(at).status is Status.ALLOCATED and memo(at).deploys == 0
    at.region.default_nature = Nature()
    taken_up_again(at, attempt=2)
    assert isinstance(await at.settle(), Done)
    assert memo(at).deploys == 1 and sent(at, "deploy") == 2
