"""Refusals of a region: which of them a stage retries, and the failures that it reports."""

from __future__ import annotations

import pytest

from farrier.handlers.node import region
from farrier.handlers.node.moves import Failed, Waiting, with_fields
from farrier.model.expected import disagreement
from farrier.model.failures import FAILURES, FailureClass, QuarantineCause
from farrier.model.maas import MaasError, MaasFailure, StatusNumber
from farrier.model.node import Node, Quarantine
from farrier.model.observation import MaasObservation
from farrier.model.status import NodeStatus
from tests.support.maas import state_of
from tests.support.nodes import NOW, node

NODE = node()


def held(status: StatusNumber, *, owner: str = "ann", name: str | None = None) -> MaasObservation:
    return MaasObservation(
        system_id="abc123",
        state=state_of(status),
        since=NOW,
        read_at=NOW,
        fresh_at=NOW,
        status=status,
        status_name=name,
        owner=owner,
    )


def failed(failure: MaasFailure) -> Failed:
    settled = region.of_error(MaasError(failure, "No more IPs available in subnet: 10.9.0.0/30", operation="deploy"))
    assert isinstance(settled, Failed)
    return settled


def test_an_address_that_another_has_is_a_mistake_in_the_configuration_and_not_tried_again() -> None:
    assert failed(MaasFailure.ADDRESS_TAKEN).failure is FailureClass.INVALID_CONFIG
    assert not FAILURES[FailureClass.INVALID_CONFIG].retryable


def test_an_exhausted_subnet_is_a_lack_of_capacity_and_the_advice_says_what_to_free() -> None:
    settled = failed(MaasFailure.CAPACITY)
    assert settled.failure is FailureClass.CAPACITY and "10.9.0.0/30" in settled.detail
    advice = FAILURES[FailureClass.CAPACITY]
    assert advice.retryable and "free addresses" in advice.action


def test_deployments_that_wait_for_their_turn_wait_without_a_limit_of_time() -> None:
    settled = region.of_error(MaasError(MaasFailure.BUSY, "2 deployments are being asked for", operation="deploy"))
    assert isinstance(settled, Waiting) and not settled.timed


@pytest.mark.parametrize("status", [StatusNumber.RESCUE_MODE, StatusNumber.EXITING_RESCUE_MODE])
def test_a_machine_that_rescue_mode_took_is_said_to_be_and_how_to_get_it_back(status: StatusNumber) -> None:
    said = region.foreign(NODE, held(status)).detail
    assert "'ann'" in said and "rescue mode" in said and "farrier's key" in said and "release" in said


def test_a_machine_that_another_simply_has_is_not_said_to_be_in_rescue_mode() -> None:
    assert "rescue" not in region.foreign(NODE, held(StatusNumber.DEPLOYED)).detail


def quarantined_for(reason: str) -> Node:
    why = Quarantine(QuarantineCause.STATE_DISAGREEMENT, reason)
    return with_fields(NODE, status=NodeStatus.QUARANTINED, quarantine=why)


def test_a_machine_that_left_rescue_mode_is_still_said_to_be_held_because_of_it() -> None:
    node = quarantined_for(region.foreign(NODE, held(StatusNumber.RESCUE_MODE)).detail)
    said = region.foreign(node, held(StatusNumber.DEPLOYED)).detail
    assert "'ann'" in said and "rescue mode" in said and "farrier's key" in said and "release" in said
    again = region.foreign(quarantined_for(said), held(StatusNumber.DEPLOYED)).detail
    assert again == said, "the newest failure includes what happened before"


def test_a_user_who_took_a_machine_later_is_not_said_to_have_it_from_rescue_mode() -> None:
    node = quarantined_for(region.foreign(NODE, held(StatusNumber.RESCUE_MODE)).detail)
    assert "rescue" not in region.foreign(node, held(StatusNumber.DEPLOYED, owner="bob")).detail


def test_why_keeps_the_reason_of_a_node_in_service_whose_machine_left_rescue_mode() -> None:
    """Drift quarantines the node while its machine is in rescue mode; later comparisons are shown with that reason."""
    noted = disagreement(NodeStatus.ACTIVE, held(StatusNumber.RESCUE_MODE, name="Rescue mode"), foreign=True)
    deployed = held(StatusNumber.DEPLOYED, name="Deployed")
    said = disagreement(NodeStatus.QUARANTINED, deployed, foreign=True, noted=noted)
    assert said is not None and said == noted
    assert said != disagreement(NodeStatus.QUARANTINED, deployed, foreign=True)
