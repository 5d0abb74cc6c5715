"""Larger worlds with all kinds of events, in orders drawn by seeds."""

from __future__ import annotations

import pytest

from tests.simulation.budget import Budget, Size
from tests.simulation.search import walk
from tests.simulation.world import World

# The searches take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SIZES = (
    Size(ids=(0, 1, 2), shards=2, processes=2),
    Size(ids=(0, 1, 2, 3, 4, 5), shards=4, processes=3),
)
STEPS = 160


def a_world(seed: int) -> World:
    budget = Budget(asks=4, edits=1, crashes=2, pauses=2, lost_notifications=2, lost_replies=3, silences=4)
    return World(SIZES[seed % len(SIZES)], budget)


def broken(seeds: range) -> dict[int, str]:
    found = {seed: walk(a_world(seed), seed, steps=STEPS) for seed in seeds}
    return {seed: f"{each.violation} after {each.trace}" for seed, each in found.items() if each is not None}


def test_no_order_of_five_hundred_breaks_a_promise() -> None:
    assert broken(range(500)) == {}


@pytest.mark.full
@pytest.mark.parametrize("part", range(10))
def test_no_order_of_ten_thousand_breaks_a_promise(part: int) -> None:
    assert broken(range(part * 1_000, (part + 1) * 1_000)) == {}
