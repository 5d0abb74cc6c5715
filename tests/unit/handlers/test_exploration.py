"""All states that a node without MAAS can reach: the invariants hold, and from each the node can be deleted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node
from tests.support.exploration import FRESH_NODES, STIMULI, Place, explore, reach
from tests.support.nodes import NOW

OF_THE_BMC = ("set_power", "set_bmc", "clear_bmc", "manage", "BMC")
PAUSES = ("pause", "unpause")
BESIDE_IT = (
    *("delete", "cancel", "onboard", "adopt", "retry_stage", "drain", "remove"),
    *("tasks succeed", "an hour"),
)


def placed(nodes: Iterable[Node]) -> list[Place]:
    return [Place(fresh, NOW) for fresh in nodes]


def deleted(found: dict[object, set[object]]) -> set[object]:
    return {key for key in found if f"'{N.DELETED}'" in repr(key)}


ALL = tuple(name for name in STIMULI if not name.startswith(OF_THE_BMC))
# Stimuli that lead to a tenth of the places, in a tenth of the time.
OFTEN = (*BESIDE_IT, "enrols", "is well", "is unwell", "tasks fail", "decommission", "quarantine", "release")


@pytest.mark.timeout(1500)  # takes some 15 s of a processor, which other tests may use, too
@pytest.mark.parametrize("names", [OFTEN, pytest.param(ALL, marks=pytest.mark.full)], ids=["often", "all"])
def test_a_node_can_be_deleted_from_every_reachable_state(names: tuple[str, ...]) -> None:
    """The exploration also asserts the invariants on the way."""
    found = explore(placed(FRESH_NODES), {name: s for name, s in STIMULI.items() if name.startswith(names)})
    assert len(found) > 1000, "the walk has not gone far"
    assert deleted(found) and reach(found, deleted(found)) == found.keys()


def test_a_node_with_a_bmc_can_be_deleted_from_every_reachable_state() -> None:
    agentless = tuple(replace(fresh, agentless=True) for fresh in FRESH_NODES)
    names = (*OF_THE_BMC, *PAUSES, *BESIDE_IT)
    found = explore(placed(agentless), {name: s for name, s in STIMULI.items() if name.startswith(names)})
    assert deleted(found) and reach(found, deleted(found)) == found.keys()
    seen = {value for key in found for value in M if f"'{value}'" in repr(key)}
    assert seen == {M.UNMANAGED, M.ENROLL, M.MANAGEABLE, M.ADOPT_FAILED, M.ERROR}, "nothing rests in a transient state"
