"""All states that a node without MAAS can reach: the invariants hold, and from each the node can be deleted."""

from __future__ import annotations

import pytest

from farrier.model.node.layers import NodeStatus as N
from tests.support.exploration import reach, walk


@pytest.mark.timeout(1500)  # takes some 100 s of a processor, which other tests may use, too
@pytest.mark.xdist_group("walk")
@pytest.mark.parametrize("often", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_node_can_be_deleted_from_every_reachable_state(often: bool) -> None:
    """The walk also asserts the invariants on the way."""
    found, _ = walk(often=often)
    gone = {key for key in found if f"'{N.DELETED}'" in repr(key)}
    assert gone and reach(found, gone) == found.keys()
