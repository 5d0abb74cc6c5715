"""Every edge that a node of this release can take is taken by its real trigger, through the real loop.

The paths are in `tests.support.paths`; `LATER` has the edges that this release cannot reach, each with the reason.
Together they are exactly the model's edges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.model.node import edges
from tests.support import pg
from tests.support import site as sites
from tests.support.paths import DECOMMISSION, Path
from tests.support.paths_of_adoption import EVERY_PATH
from tests.support.site import Site

CANNOT_UNDO = "nothing that a decommission of this release does can fail to be undone"
CANNOT_OBSERVE = "nothing is observed yet that would show a decommission's goal"

LATER = {
    (DECOMMISSION, "compensating", "failed_manual_intervention"): CANNOT_UNDO,
    (DECOMMISSION, "running", "reconciled"): CANNOT_OBSERVE,
    (DECOMMISSION, "failed_retryable", "reconciled"): CANNOT_OBSERVE,
    (DECOMMISSION, "failed_manual_intervention", "reconciled"): CANNOT_OBSERVE,
}


@pytest.fixture(scope="module")
async def crowded(pg_server: pg.Server) -> AsyncIterator[Site]:
    """One site for all scenarios, each of which has nodes of its own; they share only the time."""
    async with pg_server.database() as db, sites.opened(db) as opened:
        yield opened


@pytest.fixture
def site(crowded: Site) -> Site:
    """The common site, all of whose BMCs respond again."""
    crowded.bmc.recover()
    return crowded


@pytest.mark.parametrize("path", EVERY_PATH, ids=lambda path: path.__name__)
async def test_edges_are_taken_by_their_triggers(site: Site, path: Path) -> None:
    machine = await path(site)
    moves = await machine.moves()
    for edge in EVERY_PATH[path]:
        causes = [m.cause for m in moves if (m.layer, m.source, m.target) == edge[:3]]
        assert any(cause.startswith(edge.cause) for cause in causes), (edge, moves)


def test_every_edge_of_the_model_has_a_path_or_a_reason_in_later() -> None:
    taken = {edge[:3] for path_edges in EVERY_PATH.values() for edge in path_edges}
    every = {(layer, *pair) for layer, pairs in edges.ALLOWED.items() for pair in pairs}
    assert taken | LATER.keys() == every
    assert not taken & LATER.keys()
