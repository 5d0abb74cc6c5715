"""Each stage that acts on a node's machine in MAAS, with a machine on which the stage must not act: another user owns
it, it no longer exists, or it is in a status other than the one that the stage needs."""

from __future__ import annotations

import pytest

from farrier.config.sites import DeploySite, NetworkSite, PortSite
from farrier.handlers.node.changes import Done, Failed, Settled, StageStep, Waiting, with_fields, with_note
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus
from farrier.model.node.snapshot import Memo, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import ADMIN, OPERATOR, Status
from farrier.sim.maas.records import Machine
from tests.support.decommissions import asked, given, given_deployed, sent, skips
from tests.support.stages import SECOND, Stand

ONBOARDING = [
    O.COMMISSION_NODE,
    O.CONFIGURE_STORAGE,
    O.APPLY_ROCE_PHASE2,
    O.ENSURE_PXE_INTERFACE_AUTO,
    O.DEPLOY_VIA_MAAS,
    O.CLASSIFY_DEPLOY_FAILURE,
    O.RECOVER_FOR_DATASOURCE_RETRY,
    O.ENSURE_HARDWARE_SYNC_CONFIGURED,
]
WAITING = [O.WAIT_FOR_READY, O.WAIT_FOR_DEPLOYED]
PREPARING = [O.CONFIGURE_STORAGE, O.APPLY_ROCE_PHASE2, O.ENSURE_PXE_INTERFACE_AUTO]
DECOMMISSION = [D.RELEASE_MAAS_NODE, D.POWER_OFF_MAAS_NODE, D.REMOVE_MAAS_RECORD]


@pytest.fixture
def stand(stand: Stand) -> Stand:
    stand.use(deploy=DeploySite(hardware_sync=True), network=NetworkSite(ports=(PortSite(match="*", mtu=9000),)))
    return stand


async def machine_at(stand: Stand, stage: O | D, status: Status, *, owner: str = OPERATOR.username) -> Machine:
    """Put the node at this stage, with its machine in this status and owned by this user."""
    released = Memo(released=stage is D.POWER_OFF_MAAS_NODE)
    as_decommission = stage if isinstance(stage, D) else D.RELEASE_MAAS_NODE
    machine = await given(stand, as_decommission, status, owner=owner, memo=released)
    if isinstance(stage, O):
        stand.onboards(stage)
    return machine


def fails(stand: Stand, settled: Settled, failure: FailureClass) -> None:
    assert isinstance(settled, Failed) and settled.failure is failure
    assert (sent(stand), stand.writes) == ([], [])


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("stage", [*ONBOARDING, *DECOMMISSION])
@pytest.mark.parametrize("status", [Status.NEW, Status.READY, Status.ALLOCATED, Status.DEPLOYED, Status.BROKEN])
async def test_a_machine_that_another_user_owns_is_not_changed(stand: Stand, stage: O | D, status: Status) -> None:
    await machine_at(stand, stage, status)
    settled = await stand.settle()
    fails(stand, settled, FailureClass.STATE_DISAGREEMENT)
    assert isinstance(settled, Failed) and "'op'" in settled.detail


@pytest.mark.parametrize("stage", ONBOARDING)
async def test_a_machine_that_no_longer_exists_stops_the_onboarding(stand: Stand, stage: O) -> None:
    stand.region.forget(await machine_at(stand, stage, Status.READY))
    fails(stand, await stand.settle(), FailureClass.MACHINE_DELETED_UPSTREAM)


# --- stages that decide on the observation


@pytest.mark.parametrize("stage", WAITING)
async def test_a_stage_waits_for_a_reading_of_its_attempt(stand: Stand, stage: O) -> None:
    await machine_at(stand, stage, Status.READY, owner=ADMIN.username)
    stand.observe()
    stand.pass_time(SECOND)
    stand.onboards(stage)
    settled = await stand.once()
    assert isinstance(settled, Waiting) and settled.timed
    assert settled.reason == "waits until farrier has read the machine in MAAS"


@pytest.mark.parametrize("stage", WAITING)
@pytest.mark.parametrize("status", [Status.DEPLOYED, Status.COMMISSIONING, Status.FAILED_DEPLOYMENT])
async def test_an_observed_machine_of_another_user_is_a_disagreement(stand: Stand, stage: O, status: Status) -> None:
    await machine_at(stand, stage, status)
    stand.observe()
    settled = await stand.once()
    fails(stand, settled, FailureClass.STATE_DISAGREEMENT)
    assert isinstance(settled, Failed) and "'op'" in settled.detail


@pytest.mark.parametrize("stage", [*WAITING, O.WAIT_FOR_HARDWARE_SYNC_HEALTHY])
async def test_an_observed_machine_that_no_longer_exists_stops_the_onboarding(stand: Stand, stage: O) -> None:
    stand.region.forget(await machine_at(stand, stage, Status.READY))
    stand.observe()
    fails(stand, await stand.once(), FailureClass.MACHINE_DELETED_UPSTREAM)


@pytest.mark.parametrize("stage", WAITING)
@pytest.mark.parametrize("status", [Status.READY, Status.COMMISSIONING, Status.DEPLOYING, Status.DEPLOYED])
async def test_a_stage_waits_without_a_deadline_while_the_user_of_farriers_key_is_unknown(
    stand: Stand, stage: O, status: Status
) -> None:
    await machine_at(stand, stage, status)
    stand.observe(ours=None)
    settled = await stand.once()
    assert isinstance(settled, Waiting) and not settled.timed


# --- stages that leave the machine alone


@pytest.mark.parametrize("stage", [D.LOAD_SITE_CONFIG, *DECOMMISSION])
async def test_a_node_that_is_not_in_maas_skips_a_stage_of_its_decommission(stand: Stand, stage: D) -> None:
    stand.decommissions(stage)
    stand.node = with_fields(stand.node, status=NodeStatus.REMOVING)
    skips(await stand.settle(), "not in MAAS")


@pytest.mark.parametrize("stage", [D.LOAD_SITE_CONFIG, D.RELEASE_MAAS_NODE, D.POWER_OFF_MAAS_NODE])
async def test_a_deletion_skips_a_stage_without_a_request_to_maas(stand: Stand, stage: D) -> None:
    await given_deployed(stand, stage, options=WorkflowOptions(untouched="not_applicable"))
    skips(await stand.settle(), "not_applicable")
    assert asked(stand) == 0


# --- stages that prepare a machine


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("stage", PREPARING)
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.READY])
async def test_a_machine_in_a_status_that_no_onboarding_requested_is_a_disagreement(
    stand: Stand, stage: O, status: Status
) -> None:
    machine = await machine_at(stand, stage, status, owner=ADMIN.username)
    settled = await stand.settle()
    fails(stand, settled, FailureClass.STATE_DISAGREEMENT)
    assert isinstance(settled, Failed) and machine.system_id in settled.detail


@pytest.mark.parametrize("stage", [O.COMMISSION_NODE, *PREPARING])
@pytest.mark.parametrize("status", [Status.DEPLOYING, Status.DEPLOYED])
async def test_a_machine_that_this_onboarding_deploys_is_prepared(stand: Stand, stage: O, status: Status) -> None:
    await machine_at(stand, stage, status, owner=ADMIN.username)
    stand.node = with_note(stand.node, deploys=1)
    assert isinstance(await stand.settle(), Done)
    assert sent(stand) == []


@pytest.mark.parametrize("stage", PREPARING)
@pytest.mark.parametrize("status", [Status.ALLOCATED, Status.FAILED_DEPLOYMENT, Status.RELEASING])
async def test_a_machine_that_this_onboarding_had_deployed_is_released_first(
    stand: Stand, stage: O, status: Status
) -> None:
    await machine_at(stand, stage, status, owner=ADMIN.username)
    stand.node = with_note(stand.node, deploys=1)
    assert isinstance(await stand.once(), StageStep)
    assert stand.node.live.stage is O.RECOVER_FOR_DATASOURCE_RETRY
    assert sent(stand) == []
