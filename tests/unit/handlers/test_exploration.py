"""All states that a node without MAAS can reach: the invariants hold, and from each the node can be deleted."""

from __future__ import annotations

import pytest

from farrier.model.node.layers import NodeStatus as N
from tests.support.exploration import FRESH_NODES, STIMULI, Place, explore, reach
from tests.support.nodes import NOW

ALL = tuple(name for name in STIMULI if not name.startswith(("set_power", "set_bmc", "clear_bmc", "manage", "BMC")))
# Stimuli that lead to a tenth of the places, in a tenth of the time.
OFTEN = (
    *("delete", "cancel", "onboard", "adopt", "retry_stage", "drain", "remove", "decommission", "quarantine"),
    *("release", "tasks succeed", "tasks fail", "an hour", "enrols", "is well", "is unwell"),
)


@pytest.mark.timeout(1500)  # takes some 15 s of a processor, which other tests may use, too
@pytest.mark.parametrize("names", [OFTEN, pytest.param(ALL, marks=pytest.mark.full)], ids=["often", "all"])
def test_a_node_can_be_deleted_from_every_reachable_state(names: tuple[str, ...]) -> None:
    """The exploration also asserts the invariants on the way."""
    stimuli = {name: each for name, each in STIMULI.items() if name.startswith(names)}
    found = explore([Place(fresh, NOW) for fresh in FRESH_NODES], stimuli)
    assert len(found) > 1000, "the walk has not gone far"
    gone = {key for key in found if f"'{N.DELETED}'" in repr(key)}
    assert gone and reach(found, gone) == found.keys()
