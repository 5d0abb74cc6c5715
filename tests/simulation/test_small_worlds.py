"""Every order of the actions of two controllers, a database and clients, in worlds small enough for a full search.

A world in which a planted bug is found is also searched without the bug, and then keeps every promise.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.simulation.budget import Budget, Size
from tests.simulation.database import Bug
from tests.simulation.search import explore
from tests.simulation.world import World

# An exhaustive search takes long on a slow machine.
pytestmark = pytest.mark.timeout(900)

# Far more than any of these worlds has, so that the tests notice a change that makes a world endless.
MOST = 300_000

ONE = Size(ids=(0,), shards=1)
ONE_OUTSIDE = Size(ids=(1,), shards=1)
ALONE = Size(ids=(0,), shards=1, processes=1)

WORLDS = {
    "wakes": (Size(ids=(0,), shards=1), Budget(asks=2)),
    "a lost notification": (ONE, Budget(asks=2, lost_notifications=1, silences=1)),
    "a lost reply": (ONE, Budget(asks=1, lost_replies=1)),
    "a lost reply of a step": (ONE_OUTSIDE, Budget(asks=1, lost_replies=1)),
    "a crash": (ONE, Budget(asks=2, crashes=1, silences=1)),
    "a crash in a step": (ONE_OUTSIDE, Budget(asks=1, crashes=1, silences=1)),
    "a pause and a takeover": (ONE, Budget(asks=1, pauses=1, silences=1)),
    "a pause of a step and a takeover": (ONE_OUTSIDE, Budget(asks=1, pauses=1, silences=1)),
    "a write of another function": (ONE, Budget(asks=1, edits=1)),
    "a write of another function, and a lost reply of a step": (
        Size(ids=(1,), shards=1, processes=1),
        Budget(asks=1, edits=1, lost_replies=1),
    ),
}

# For each bug the smallest world in which the search finds it.
PLANTED = {
    Bug.WAKE_DELETED_UNSEEN: (ALONE, Budget(asks=2)),
    Bug.EPOCH_UNCHECKED: (ONE, Budget(asks=1, pauses=1, silences=1)),
    Bug.FENCE_NOT_LOCKED: (ONE, Budget(asks=1, pauses=1, silences=1)),
    Bug.STALE_DECISION_COMMITTED: (ALONE, Budget(asks=1, edits=1)),
    Bug.RESYNC_LEFT_OUT: (ALONE, Budget(edits=1)),
    Bug.POLL_LEFT_OUT: (
        Size(ids=(0,), shards=1, processes=1, reload_every=math.inf),
        Budget(asks=1, lost_notifications=1),
    ),
    Bug.ACTS_UNMARKED: (Size(ids=(1,), shards=1, processes=1), Budget(asks=1)),
    Bug.ACTS_EXPIRED: (ONE_OUTSIDE, Budget(asks=1, pauses=1, silences=1)),
    Bug.RECOVERY_LEFT_OUT: (ONE_OUTSIDE, Budget(asks=1, crashes=1, silences=1)),
    Bug.SETTLED_BY_VERSION: (Size(ids=(1,), shards=1, processes=1), Budget(asks=1, edits=1, lost_replies=1)),
    Bug.WOKEN_AND_AT_REST: (ALONE, Budget(asks=2)),
    Bug.MARKS_UNORDERED: (Size(ids=(1,), shards=1, processes=1), Budget(asks=2, lost_replies=1)),
}


# The worlds of bugs that are not among WORLDS.
OF_BUGS = {bug.value: world for bug, world in PLANTED.items() if world not in WORLDS.values()}


def a_case(name: str, size: Size, budget: Budget) -> Any:
    """A world with crashes, pauses or lost replies has so many orders that only `make test-all` searches all of them;
    `make test` draws some of them by seeds."""
    is_large = budget.crashes or budget.pauses or budget.lost_replies
    return pytest.param(size, budget, id=name, marks=[pytest.mark.full] if is_large else [])


@pytest.mark.parametrize(("size", "budget"), [a_case(name, *world) for name, world in (WORLDS | OF_BUGS).items()])
def test_no_order_of_actions_breaks_a_promise(size: Size, budget: Budget) -> None:
    explored = explore(World(size, budget), most=MOST)
    assert explored.found is None
    assert 1 < explored.worlds < MOST, "the search has to be complete"


TWO_RESOURCES = {
    "wakes": Budget(asks=2),
    "a lost notification": Budget(asks=2, lost_notifications=1),
    "a lost notification and a takeover": Budget(asks=1, lost_notifications=1, silences=1),
    "a lost reply": Budget(asks=2, lost_replies=1),
    "a crash": Budget(asks=1, crashes=1, silences=1),
    "a pause": Budget(asks=1, pauses=1, silences=1),
}


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("budget", TWO_RESOURCES.values(), ids=TWO_RESOURCES)
def test_no_order_of_actions_on_two_resources_breaks_a_promise(budget: Budget) -> None:
    explored = explore(World(Size(ids=(0, 1), shards=2), budget), most=MOST)
    assert explored.found is None
    assert explored.worlds < MOST, "the search has to be complete"


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("bug", [bug for bug in Bug if bug is not Bug.NONE], ids=lambda bug: bug.value)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    size, budget = PLANTED[bug]
    assert explore(World(size, budget, bug), most=MOST).found is not None
