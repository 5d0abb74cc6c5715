"""The events of a simulated fleet: few nodes are out of service at a time, in a fleet of any size."""

from __future__ import annotations

import msgspec
import pytest

from farrier.metrics.alerts.fleet import SHORT_STAYS
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.fleet import NodeGlance
from farrier.sim.events import FleetEvent, candidates, removals, turns


def fleet(size: int, *, deleted: int = 0) -> list[NodeGlance]:
    return [
        NodeGlance(
            number,
            f"gpu-{number:04}",
            NodeStatus.DELETED if number <= deleted else NodeStatus.ACTIVE,
            Management.MANAGEABLE,
            "",
        )
        for number in range(1, size + 1)
    ]


@pytest.mark.parametrize(("size", "limit"), [(1, 1), (6, 1), (12, 2), (50, 9), (600, 100)])
@pytest.mark.parametrize("event", FleetEvent)
def test_an_event_happens_to_nodes_until_a_sixth_of_the_fleet_is_away(event: FleetEvent, size: int, limit: int) -> None:
    nodes, away = fleet(size), set[int]()
    while fit := candidates(event, nodes, away):
        away.add(fit[0].id)
    assert len(away) == limit


@pytest.mark.parametrize(("size", "limit"), [(1, 0), (2, 1), (12, 2), (50, 5)])
def test_a_tenth_of_the_fleet_is_removed_but_never_a_node_alone(size: int, limit: int) -> None:
    assert removals(size) == limit


def test_nothing_happens_to_a_node_that_is_out_of_service() -> None:
    nodes = fleet(12, deleted=2)
    assert [node.id for node in candidates(FleetEvent.DRAIN, nodes, away={3})] == list(range(4, 13))


@pytest.mark.parametrize("event", FleetEvent)
def test_only_a_machine_whose_bmc_is_usable_is_reimaged_or_removed(event: FleetEvent) -> None:
    by_hand, *rest = fleet(3)
    nodes = [msgspec.structs.replace(by_hand, management=Management.UNMANAGED), *rest]
    expected = [2, 3] if event in (FleetEvent.REIMAGE, FleetEvent.REMOVAL) else [1, 2, 3]
    assert [node.id for node in candidates(event, nodes, away=())] == expected


def test_no_more_agents_are_silent_in_an_hour_than_a_healthy_fleet_may_have() -> None:
    """A silent agent is the one event that no intent requests, so FarrierFlapping counts it."""
    clock = iter(range(0, 4 * 3600, 6))
    now = 0
    events = turns(lambda: now)
    silent = [now for now in clock if next(events) is FleetEvent.SILENCE]
    assert silent[0] < 60, "a visitor of the demo sees one"
    assert max(sum(start <= at <= start + 3600 for at in silent) for start in silent) <= SHORT_STAYS
