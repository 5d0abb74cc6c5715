"""Each stage that acts on a node's machine in MAAS, with a machine on which the stage must not act: another user owns
it, it no longer exists, or it is in a status other than the one that the stage needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.config.sites import DeploySite, NetworkSite, PortSite
from farrier.handlers.node.changes import Done, Failed, Settled, StageStep, with_note
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Memo
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import ADMIN, OPERATOR, Status
from farrier.sim.maas.records import Machine
from tests.support.decommissions import given, sent
from tests.support.stages import Stand, open_stand

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
PREPARING = [O.CONFIGURE_STORAGE, O.APPLY_ROCE_PHASE2, O.ENSURE_PXE_INTERFACE_AUTO]
DECOMMISSION = [D.RELEASE_MAAS_NODE, D.POWER_OFF_MAAS_NODE, D.REMOVE_MAAS_RECORD]


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with open_stand() as stand:
        stand.use(deploy=DeploySite(hardware_sync=True), network=NetworkSite(ports=(PortSite(match="*", mtu=9000),)))
        yield stand


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


@pytest.mark.parametrize("stage", PREPARING)
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
