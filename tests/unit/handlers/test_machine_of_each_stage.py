"""Each stage that acts on a node's machine in MAAS, with a machine that another user owns or that no longer exists."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.config.sites import DeploySite, NetworkSite, PortSite
from farrier.handlers.node.moves import Failed, Settled
from farrier.model.failures import FailureClass
from farrier.model.node import Upstream
from farrier.model.stages import DecommissionStage as D
from farrier.model.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR, Status
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
DECOMMISSION = [D.RELEASE_MAAS_NODE, D.POWER_OFF_MAAS_NODE, D.REMOVE_MAAS_RECORD]


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with open_stand() as stand:
        stand.use(deploy=DeploySite(hardware_sync=True), network=NetworkSite(ports=(PortSite(match="*", mtu=9000),)))
        yield stand


async def machine_at(stand: Stand, stage: O | D, status: Status) -> Machine:
    """Put the node at this stage, with its machine in this status and owned by another user."""
    released = Upstream(released=stage is D.POWER_OFF_MAAS_NODE)
    as_decommission = stage if isinstance(stage, D) else D.RELEASE_MAAS_NODE
    machine = await given(stand, as_decommission, status, owner=OPERATOR.username, upstream=released)
    if isinstance(stage, O):
        stand.onboards(stage)
    return machine


def fails(stand: Stand, settled: Settled, failure: FailureClass) -> None:
    assert isinstance(settled, Failed) and settled.failure is failure
    assert (sent(stand), stand.writes) == ([], [])


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("stage", [*ONBOARDING, *DECOMMISSION])
@pytest.mark.parametrize("status", [Status.NEW, Status.READY, Status.ALLOCATED, Status.DEPLOYED, Status.BROKEN])
async def test_a_machine_that_another_user_owns_is_left_alone(stand: Stand, stage: O | D, status: Status) -> None:
    await machine_at(stand, stage, status)
    settled = await stand.settle()
    fails(stand, settled, FailureClass.STATE_DISAGREEMENT)
    assert isinstance(settled, Failed) and "'op'" in settled.detail


@pytest.mark.parametrize("stage", ONBOARDING)
async def test_a_machine_that_no_longer_exists_stops_the_onboarding(stand: Stand, stage: O) -> None:
    stand.region.forget(await machine_at(stand, stage, Status.READY))
    fails(stand, await stand.settle(), FailureClass.MACHINE_DELETED_UPSTREAM)
