"""Stage `apply_roce_phase2`, first half: allocates the networks of the site, or reports what is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.config.sites import InfinibandSite, NetworkSite
from farrier.handlers.node.changes import Done, Failed, Settled, StageStep, Waiting, with_fields, with_note
from farrier.model.network.uses import NodeNetworks, PartitionUse, PortUse, SegmentUse
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.model.node.writes import UseNetworks
from farrier.model.partition.partition import MemberState
from tests.support.stages import Stand

PORT, OTHER = "0002c903000e0001", "0002c903000e0002"
HELD = SegmentUse(name="lan", state="ready", site="north", free=True, address="10.9.0.2", prefix_length=24)
FREE = SegmentUse(name="lan", state="ready", site="north", free=True)
READY = PartitionUse(name="ib", state="ready", site="north")


def port(guid: str = PORT, state: MemberState = MemberState.APPLIED, **fields: Any) -> PortUse:
    given: dict[str, Any] = {"guid": guid, "owner": "gpu-1", "ours": True, "state": state}
    return PortUse(**given | fields)


def partition(*ports: PortUse, **fields: Any) -> PartitionUse:
    given: dict[str, Any] = {"name": "ib", "state": "ready", "site": "north", "ports": ports}
    return PartitionUse(**given | fields)


@pytest.fixture
def at(stand: Stand) -> Stand:
    stand.use(network=NetworkSite(segments=("lan",)), infiniband=InfinibandSite(partitions=("ib",)))
    stand.onboards(OnboardingStage.APPLY_ROCE_PHASE2)
    stand.node = with_fields(stand.node, ib_guids=(PORT,))
    return stand


async def with_(at: Stand, segment: SegmentUse = HELD, of: PartitionUse | None = None) -> Settled:
    """The stage's result for a node with these networks."""
    known = NodeNetworks(segments=(segment,), partitions=(of or partition(port()),))
    at.node = with_fields(at.node, networks=known)
    return await at.once()


async def test_the_stage_first_allocates_all_networks_of_the_site(at: Stand) -> None:
    settled = await at.once()
    assert isinstance(settled, Waiting) and settled.requeue_after == timedelta(0)
    assert at.writes == [UseNetworks(segments=("lan",), partitions=("ib",))]


async def test_the_stage_completes_after_it_has_an_address_and_ufm_has_its_ports(at: Stand) -> None:
    settled = await with_(at)
    assert isinstance(settled, Done) and settled.skipped is None
    assert "10.9.0.2 of lan" in settled.reason and not at.writes


@pytest.mark.parametrize(
    ("segment", "of", "expected", "timed"),
    [
        pytest.param(SegmentUse(name="lan"), None, "segment lan does not exist", False, id="no segment"),
        pytest.param(
            SegmentUse(name="lan", state="provisioning", site="north", free=True),
            None,
            "segment lan is provisioning",
            False,
            id="a segment that is not ready",
        ),
        pytest.param(
            SegmentUse(name="lan", state="ready", site="north"),
            None,
            "segment lan has no free address",
            False,
            id="a full segment",
        ),
        pytest.param(
            SegmentUse(name="lan", state="deleting/drain_allocated_ips", site="north", free=True),
            None,
            "segment lan is being deleted",
            False,
            id="a segment being deleted",
        ),
        pytest.param(HELD, PartitionUse(name="ib"), "IB partition ib does not exist", False, id="no partition"),
        pytest.param(
            HELD, partition(state="deleting"), "IB partition ib is being deleted", False, id="a partition being deleted"
        ),
        pytest.param(
            HELD,
            partition(port(state=MemberState.PENDING), state="error", last_error="no such rate"),
            f"until UFM has {PORT} in IB partition ib (error: no such rate)",
            False,
            id="a port that UFM does not have yet",
        ),
        pytest.param(
            HELD,
            partition(port(state=MemberState.REFUSED, reason="not in the fabric")),
            f"UFM refuses ports in IB partition ib: {PORT}: not in the fabric",
            True,
            id="a port that UFM refuses",
        ),
        pytest.param(
            HELD,
            partition(port(owner="vm-9", ours=False)),
            f"already members of IB partition ib: {PORT} for vm-9",
            True,
            id="a port of another owner",
        ),
    ],
)
async def test_the_stage_waits_for_a_missing_network_with_the_reason(
    at: Stand, segment: SegmentUse, of: PartitionUse | None, expected: str, timed: bool
) -> None:
    """Only faults of the node count against the stage's time limit."""
    settled = await with_(at, segment, of)
    assert isinstance(settled, Waiting), settled
    assert expected in settled.reason and settled.timed is timed
    assert not at.writes


@pytest.mark.parametrize(
    ("segment", "of"),
    [
        pytest.param(FREE, None, id="an address that became free"),
        pytest.param(
            SegmentUse(name="lan", state="deleting/db_delete", site="north", address="10.9.0.2"),
            None,
            id="an address of a segment being deleted",
        ),
        pytest.param(HELD, READY, id="a port that is no member"),
        pytest.param(HELD, partition(state="provisioning"), id="a partition that is being made"),
        pytest.param(HELD, partition(port(state=MemberState.LEAVING)), id="a port that was leaving"),
        pytest.param(HELD, partition(port(ours=False)), id="a port that a client joined beforehand"),
        pytest.param(HELD, partition(port(), port(OTHER)), id="a port that the node no longer has"),
        pytest.param(HELD, partition(port(), state="deleting"), id="a port in a partition being deleted"),
    ],
)
async def test_a_network_that_can_be_allocated_is_requested_again_after_a_pause(
    at: Stand, segment: SegmentUse, of: PartitionUse | None
) -> None:
    """A client may hold a lock, and an immediate rerun would find it again."""
    asked = await with_(at, segment, of)
    assert isinstance(asked, StageStep), "a step, so that later rules of the run can run"
    assert at.writes == [UseNetworks(segments=("lan",), partitions=("ib",))]
    settled = await at.once()
    assert isinstance(settled, Waiting) and settled.requeue_after == timedelta(seconds=1)
    assert len(at.writes) == 1
    at.now += timedelta(seconds=1)
    assert isinstance(await at.once(), StageStep)


@pytest.mark.parametrize(
    ("segment", "of"),
    [
        pytest.param(SegmentUse(name="lan", state="ready", site="south", free=True), None, id="a segment"),
        pytest.param(HELD, PartitionUse(name="ib", state="ready", site="south"), id="a partition"),
        pytest.param(HELD, PartitionUse(name="ib", state="ready"), id="a partition of no site"),
    ],
)
async def test_a_network_of_another_site_is_invalid_configuration(
    at: Stand, segment: SegmentUse, of: PartitionUse | None
) -> None:
    settled = await with_(at, segment, of)
    assert isinstance(settled, Failed) and settled.failure is FailureClass.INVALID_CONFIG
    assert "but the node belongs to site north" in settled.detail and not at.writes


async def test_the_wait_for_unknown_ib_ports_has_a_time_limit(at: Stand) -> None:
    at.node = with_fields(at.node, ib_guids=None)
    settled = await with_(at, of=READY)
    assert isinstance(settled, Waiting) and settled.timed
    assert "farrier.set_ib_ports('gpu-1'" in settled.reason and not at.writes


async def test_a_node_without_ib_ports_allocates_no_partition(at: Stand) -> None:
    at.node = with_fields(at.node, ib_guids=())
    await at.once()
    assert at.writes == [UseNetworks(segments=("lan",))]


async def test_networks_that_the_site_file_no_longer_names_are_released(at: Stand) -> None:
    at.use(network=NetworkSite(), infiniband=InfinibandSite())
    await with_(at)
    assert at.writes == [UseNetworks()]
    at.node = with_fields(at.node, networks=None)
    settled = await at.once()
    assert isinstance(settled, Done) and settled.skipped == "the site configures no network"


async def test_the_networks_of_a_deployed_machine_are_not_changed(at: Stand) -> None:
    at.use(network=NetworkSite(segments=("other",)))
    at.node = with_note(at.node, deploys=1)
    settled = await with_(at)
    assert isinstance(settled, Done) and not at.writes
