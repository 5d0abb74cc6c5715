"""A credential that changes, decided without a database: whatever comes between, a node becomes manageable again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.model.bmc import BmcError, BmcFailure
from farrier.model.management import Management as M
from farrier.model.node import Pause
from tests.support.nodes import MINUTE, Secrets
from tests.support.power import READING, World, manageable

HOUR = timedelta(hours=1)
ROTATED = replace(READING, credential_version="v2")
NO_ROUTE = BmcError(BmcFailure.UNREACHABLE, "no route")


def rotated() -> World:
    """The secret has a new version, with which the BMC can be read as soon as it answers at all."""
    world = World(NO_ROUTE)
    world.secrets = Secrets("v2")
    return world


@pytest.mark.parametrize("auto_manage", [True, False])
@pytest.mark.parametrize("paused", [False, True], ids=["outage", "outage and pause"])
def test_a_rotation_during_an_outage_heals_by_itself(auto_manage: bool, paused: bool) -> None:
    world = rotated()
    node = world.live(manageable(auto_manage=auto_manage), until=5 * MINUTE)
    assert (node.management, node.bmc.failure) == (M.ENROLL, BmcFailure.UNREACHABLE)
    if paused:
        node = world.live(replace(node, paused=Pause("fire drill", world.now)), until=5 * MINUTE)
        node = replace(node, paused=None)
    world.answer = lambda: ROTATED
    healed = world.live(node, until=HOUR)
    assert (healed.management, healed.bmc.good_version, healed.bmc.asked_at) == (M.MANAGEABLE, "v2", None)
