"""Stage `render_cloud_init`: checks that the user data can be rendered, issues the token, and sends nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import override

from farrier.config.sites import CloudInitSite
from farrier.handlers.node.changes import Done, Failed, Waiting, with_fields, with_note
from farrier.handlers.node.maas import cloud_init
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Memo
from farrier.model.node.stages import OnboardingStage
from farrier.model.node.writes import IssueBootstrap
from tests.support.nodes import Secrets
from tests.support.stages import Stand, observation

STAGE = OnboardingStage.RENDER_CLOUD_INIT


@pytest.fixture
def at(stand: Stand) -> Stand:
    stand.onboards(STAGE)
    stand.node = with_fields(stand.node, maas_id="abc123")
    return stand


def template(at: Stand, text: str, **fields: Any) -> None:
    at.use(cloud_init=CloudInitSite(template=text, **fields))


def secrets(at: Stand, store: Secrets) -> None:
    at.services = replace(at.services, credentials=store)


def memo(at: Stand) -> Memo:
    assert at.node.workflow is not None
    return at.node.workflow.memo


async def test_the_token_of_the_next_deployment_is_issued_and_recorded(at: Stand) -> None:
    at.node = with_note(at.node, deploys=0)
    settled = await at.once()
    token = await cloud_init.token(at.services, at.site, at.node, 1)
    assert isinstance(settled, Done) and settled.skipped is None
    assert at.writes == [IssueBootstrap(cloud_init.digest(token), at.site.deploy.bootstrap_ttl)]
    assert memo(at).token == cloud_init.digest(token)
    assert at.world.observed.operations == []


async def test_a_second_run_issues_the_same_token_with_a_new_lifetime(at: Stand) -> None:
    await at.once()
    at.pass_time(at.site.deploy.bootstrap_ttl)
    await at.once()
    assert len(at.writes) == 2 and at.writes[0] == at.writes[1]
    assert memo(at).token_at == at.now


async def test_each_node_workflow_deployment_and_key_has_a_different_token(at: Stand) -> None:
    async def token(deploy: int = 1) -> str:
        return await cloud_init.token(at.services, at.site, at.node, deploy)

    tokens = [await token(), await token(2)]
    at.onboards(STAGE, id=99)
    tokens.append(await token())
    at.node = with_fields(at.node, id=2)
    tokens.append(await token())
    secrets(at, _Rotated())
    tokens.append(await token())
    assert len(set(tokens)) == 5


class _Rotated(Secrets):
    @override
    async def token(self, reference: str) -> str:
        return "another key"


async def test_no_outcome_contains_the_token(at: Stand) -> None:
    token = await cloud_init.token(at.services, at.site, at.node, 1)
    settled = await at.once()
    assert isinstance(settled, Done) and token not in repr(settled)
    template(at, "#cloud-config\n{{ {}[bootstrap_token] }}")
    failed = await at.once()
    assert isinstance(failed, Failed) and token not in repr(failed)


async def test_an_agentless_node_gets_no_token(at: Stand) -> None:
    at.node = with_fields(at.node, agentless=True)
    secrets(at, Secrets(None))
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped is None
    assert (at.writes, memo(at).token) == ([], None)


async def test_a_template_without_a_token_issues_no_token_and_the_reason_says_so(at: Stand) -> None:
    template(at, "#cloud-config\nhostname: {{ node.name }}\n")
    settled = await at.once()
    assert isinstance(settled, Done) and "does not contain bootstrap_token" in settled.reason
    assert (at.writes, memo(at).token) == ([], None)


async def test_a_site_without_a_template_is_skipped(at: Stand) -> None:
    template(at, "")
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped == "site north has no template"
    assert (at.writes, memo(at).token) == ([], None)


@pytest.mark.parametrize("agentless", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#cloud-config\n{{ node.labels.rack }}", "no attribute 'rack'"),
        ("hostname: {{ node.name }}", "cloud-init requires"),
        ("#cloud-config\n" + "x" * 2000, "more than the 1024 bytes"),
    ],
)
async def test_user_data_that_cannot_be_rendered_is_invalid_configuration(
    at: Stand, text: str, expected: str, agentless: bool
) -> None:
    at.node = with_fields(at.node, agentless=agentless)
    template(at, text, max_bytes=1024)
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.INVALID_CONFIG
    assert expected in settled.detail and at.writes == []


async def test_a_key_that_does_not_resolve_fails_the_stage_unless_the_cause_is_temporary(at: Stand) -> None:
    secrets(at, Secrets(None))
    settled = await at.once()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.NO_CREDENTIALS
    secrets(at, Secrets(None, temporary=True))
    assert isinstance(await at.once(), Waiting)


# --- a machine that was deployed before


async def test_after_a_deployment_the_stage_waits_for_a_reading_of_the_machine(at: Stand) -> None:
    at.node = with_note(at.node, deploys=1)
    settled = await at.once()
    assert isinstance(settled, Waiting) and settled.reason == "waits until farrier has read the machine in MAAS"


@pytest.mark.parametrize("state", [MaasStatus.DEPLOYING, MaasStatus.DEPLOYED])
async def test_a_machine_that_this_workflow_deployed_skips_the_stage(at: Stand, state: MaasStatus) -> None:
    at.node = with_fields(with_note(at.node, deploys=1, token="abc"), maas=_seen(at, state=state, ours=True))
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped is not None
    assert (at.writes, memo(at).token) == ([], "abc")


@pytest.mark.parametrize(
    ("state", "ours"), [(MaasStatus.READY, False), (MaasStatus.FAILED, True), (MaasStatus.DEPLOYED, False)]
)
async def test_another_deployment_gets_a_new_token(at: Stand, state: MaasStatus, ours: bool) -> None:
    at.node = with_fields(with_note(at.node, deploys=1), maas=_seen(at, state=state, ours=ours))
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped is None
    assert memo(at).token == cloud_init.digest(await cloud_init.token(at.services, at.site, at.node, 2))


async def test_after_an_undone_deployment_the_next_one_gets_a_new_token(at: Stand) -> None:
    at.node = with_fields(
        with_note(at.node, deploys=1, disowned=1), maas=_seen(at, state=MaasStatus.DEPLOYED, ours=True)
    )
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped is None
    assert memo(at).token == cloud_init.digest(await cloud_init.token(at.services, at.site, at.node, 2))


def _seen(at: Stand, **fields: Any) -> MaasObservation:
    return replace(observation(at.region, "abc123", at.now), **fields)
