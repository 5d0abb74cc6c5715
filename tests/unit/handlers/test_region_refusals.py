"""Refusals of a region: which of them a stage retries, and the failures that it reports."""

from __future__ import annotations

import pytest

from farrier.handlers.node.changes import Failed, Waiting, with_fields
from farrier.handlers.node.maas import region
from farrier.model.maas.reading import MaasError, MaasFailure, Machine, StatusNumber
from farrier.model.machine.expected import BY_RESCUE, disagreement
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FAILURES, FailureClass
from farrier.model.node.layers import NodeStatus
from tests.support.maas import state_of
from tests.support.nodes import NOW, node

NODE = node()


def held(status: StatusNumber, *, owner_by_rescue: bool = False) -> MaasObservation:
    return MaasObservation(
        system_id="abc123",
        state=state_of(status),
        since=NOW,
        read_at=NOW,
        fresh_at=NOW,
        status=status,
        owner="ann",
        owner_by_rescue=owner_by_rescue,
    )


def failed(failure: MaasFailure) -> Failed:
    settled = region.of_error(MaasError(failure, "No more IPs available in subnet: 10.9.0.0/30", operation="deploy"))
    assert isinstance(settled, Failed)
    return settled


def test_an_address_of_another_machine_is_invalid_configuration_and_not_retried() -> None:
    assert failed(MaasFailure.ADDRESS_TAKEN).failure is FailureClass.INVALID_CONFIG
    assert not FAILURES[FailureClass.INVALID_CONFIG].retryable


def test_an_exhausted_subnet_is_a_lack_of_capacity_with_advice() -> None:
    settled = failed(MaasFailure.CAPACITY)
    assert settled.failure is FailureClass.CAPACITY and "10.9.0.0/30" in settled.detail
    advice = FAILURES[FailureClass.CAPACITY]
    assert advice.retryable and "free some of its addresses" in advice.action


def test_a_deployment_that_waits_for_a_slot_has_no_time_limit() -> None:
    settled = region.of_error(MaasError(MaasFailure.BUSY, "2 deployments are being asked for", operation="deploy"))
    assert isinstance(settled, Waiting) and not settled.timed


@pytest.mark.parametrize("status", [StatusNumber.RESCUE_MODE, StatusNumber.EXITING_RESCUE_MODE])
def test_a_machine_that_rescue_mode_reassigned_is_reported_with_the_way_to_recover_it(status: StatusNumber) -> None:
    said = region.foreign(NODE, held(status)).detail
    assert "'ann'" in said and "rescue mode" in said and "farrier's key" in said and "release" not in said


def test_a_deployed_machine_of_another_user_is_reported_without_rescue_mode() -> None:
    assert "rescue" not in region.foreign(NODE, held(StatusNumber.DEPLOYED)).detail


@pytest.mark.parametrize(("owner", "explained"), [("ann", True), ("bob", False)])
def test_an_owner_by_rescue_mode_is_explained_also_after_rescue_mode_ends(owner: str, explained: bool) -> None:
    seen = held(StatusNumber.DEPLOYED, owner_by_rescue=True)
    read = Machine(system_id="abc123", status=StatusNumber.DEPLOYED, hostname="gpu-1", owner=owner)
    said = region.foreign(with_fields(NODE, maas=seen), read).detail
    assert f"'{owner}'" in said and (BY_RESCUE in said) is explained


def test_drift_explains_an_owner_by_rescue_mode() -> None:
    said = disagreement(NodeStatus.ACTIVE, held(StatusNumber.DEPLOYED, owner_by_rescue=True), foreign=True)
    assert said is not None and "'ann'" in said and BY_RESCUE in said
    said = disagreement(NodeStatus.ACTIVE, held(StatusNumber.DEPLOYED), foreign=True)
    assert said is not None and "'ann'" in said and BY_RESCUE not in said
