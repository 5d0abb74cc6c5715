"""The machine of a node as the region of its site shows it: owned by farrier's user, by another user, or unknown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.handlers.node.changes import Failed, ServiceCall, Waiting, with_fields
from farrier.handlers.node.maas import region
from farrier.model.maas.reading import MaasFailure, Machine
from farrier.model.machine.observation import Region
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient
from tests.support.machines import created
from tests.support.stages import Stand


@pytest.fixture
async def stand(stand: Stand) -> Stand:
    stand.onboards(OnboardingStage.COMMISSION_NODE)
    (await created(stand)).owner = "former"
    return stand


async def asked(stand: Stand) -> Waiting | Failed:
    async def decide(_machine: Machine, _client: MaasClient) -> Waiting:
        pytest.fail("a stage was called with a machine of another user")

    result = region.with_machine(stand.node, stand.policy, decide, name="look")
    settled = await result.act(stand.services) if isinstance(result, ServiceCall) else result
    assert isinstance(settled, Waiting | Failed)
    return settled


async def test_a_machine_that_another_user_holds_is_a_disagreement(stand: Stand) -> None:
    settled = await asked(stand)
    assert isinstance(settled, Failed)
    assert settled.failure is FailureClass.STATE_DISAGREEMENT
    stand.observe(ours=False)
    assert isinstance(await asked(stand), Failed)


async def test_a_key_that_now_belongs_to_another_user_is_no_failure_of_the_node(stand: Stand) -> None:
    stand.observe(ours=True)
    settled = await asked(stand)
    assert isinstance(settled, Waiting)
    assert not settled.timed
    assert "the API key no longer belongs to 'former'" in settled.reason


@pytest.mark.parametrize("failure", [None, *MaasFailure])
def test_a_region_that_lacks_farriers_machines_or_refuses_farriers_key_is_in_doubt(failure: MaasFailure | None) -> None:
    doubt = Region(username="farrier", failure=failure, last_error="why").doubt
    assert doubt == ("why" if failure in {MaasFailure.ABSENT, MaasFailure.AUTH} else None)
    assert Region(failure=failure).doubt == "not read yet"


async def test_no_request_is_sent_to_a_region_in_doubt(stand: Stand) -> None:
    stand.node = with_fields(stand.node, region=Region(failure=MaasFailure.AUTH, last_error="another one is there"))
    stand.world.observed.requests.clear()
    settled = await asked(stand)
    assert isinstance(settled, Waiting)
    assert (settled.reason, settled.timed, settled.requeue_after) == (
        "MAAS: another one is there",
        False,
        timedelta(seconds=15),
    )
    assert stand.world.observed.operations == []
