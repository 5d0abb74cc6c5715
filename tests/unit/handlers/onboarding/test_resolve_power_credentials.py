"""Stage `resolve_power_credentials` of a deployment: needs a verified BMC, and a user and password for MAAS."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from farrier.handlers.node.changes import with_fields
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Bmc
from farrier.model.node.stages import OnboardingStage as O
from farrier.protocols import NodeCredentials
from tests.support.found_machines import fails, is_done, steps, waits
from tests.support.nodes import Secrets
from tests.support.stages import Stand

STAGE = O.RESOLVE_POWER_CREDENTIALS


@pytest.fixture
def stand(stand: Stand) -> Stand:
    stand.onboards(STAGE)
    return stand


def keeps_secrets_in(stand: Stand, store: NodeCredentials) -> None:
    stand.services = msgspec.structs.replace(stand.services, credentials=store)


async def test_a_manageable_bmc_whose_credential_resolves_passes_the_stage(stand: Stand) -> None:
    assert is_done(await stand.once()).to is None, "no part of the secret is stored"
    is_done(await stand.once())
    assert stand.secrets.looks == 2 and stand.world.observed.operations == []


async def test_a_missing_credential_is_reported_without_its_secret(stand: Stand) -> None:
    stand.secrets.current = None
    failed = fails(await stand.once(), F.NO_CREDENTIALS, "env:BMC", "is gone")
    assert "secret" not in failed.detail


async def test_the_stage_waits_while_the_store_is_unavailable(stand: Stand) -> None:
    keeps_secrets_in(stand, Secrets(None, temporary=True))
    assert waits(await stand.once()).requeue_after is not None


async def test_the_stage_requests_manage_and_waits_until_the_node_is_manageable(stand: Stand) -> None:
    stand.node = with_fields(stand.node, management=M.ENROLL)
    assert steps(await stand.once()).to.bmc.asked_at == stand.now
    waits(await stand.once())
    stand.node = with_fields(stand.node, management=M.VERIFYING)
    waits(await stand.once())
    stand.node = with_fields(stand.node, management=M.MANAGEABLE)
    is_done(await stand.once())


@pytest.mark.parametrize("management", [M.UNMANAGED, M.ERROR])
async def test_a_node_without_a_bmc_has_no_credentials(stand: Stand, management: M) -> None:
    stand.node = with_fields(stand.node, management=management, bmc_address=None, bmc_credential=None)
    fails(await stand.once(), F.NO_CREDENTIALS, "no BMC details")


async def test_a_bmc_without_a_credential_is_reported(stand: Stand) -> None:
    stand.node = with_fields(stand.node, management=M.ENROLL, bmc_credential=None)
    fails(await stand.once(), F.NO_CREDENTIALS, "credential")


async def test_another_machine_behind_the_bmc_fails_the_stage(stand: Stand) -> None:
    wrong = Bmc(failures=1, failure=BmcFailure.IDENTITY_MISMATCH, last_error="expected serial SN-1")
    stand.node = with_fields(stand.node, management=M.ENROLL, bmc=wrong)
    fails(await stand.once(), F.IDENTITY_MISMATCH, "SN-1")


async def test_a_bmc_that_is_not_manageable_in_time_fails_as_not_manageable_with_its_error(stand: Stand) -> None:
    """The failure has the BMC's class and not `timeout`, because the BMC's class has its own advice."""
    away = Bmc(asked_at=stand.now, failures=3, failure=BmcFailure.UNREACHABLE, last_error="no route to host")
    stand.node = with_fields(stand.node, management=M.ENROLL, bmc=away)
    assert "no route to host" in waits(await stand.once()).reason
    stand.now += timedelta(minutes=23)
    fails(await stand.once(), F.NOT_MANAGEABLE, "no route to host")
    stand.node = with_fields(stand.node, management=M.VERIFYING)
    fails(await stand.once(), F.NOT_MANAGEABLE, "for the verification")
