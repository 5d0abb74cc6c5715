"""Rotations of a credential, without a database: a node becomes manageable again, after any events in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from typing_extensions import override

from farrier.handlers.node.bmc.rotation import AGAIN_AFTER
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Pause
from tests.support.nodes import MINUTE, SECOND, Secrets
from tests.support.power import READING, World, gaps, manageable

HOUR = timedelta(hours=1)


class Alternating(Secrets):
    """A store in which every other read goes to a mirror with the former version."""

    @override
    async def version(self, target: BmcTarget) -> str:
        self.looks += 1
        return self.seen()

    def seen(self) -> str:
        return f"v{1 + self.looks % 2}"


ROTATED = replace(READING, credential_version="v2")
NO_ROUTE = BmcError(BmcFailure.UNREACHABLE, "no route")


def rotated() -> World:
    """A BMC in an outage, and a secret whose new version the BMC accepts."""
    world = World(NO_ROUTE)
    world.secrets = Secrets("v2")
    return world


@pytest.mark.parametrize("auto_manage", [True, False])
@pytest.mark.parametrize("paused", [False, True], ids=["outage", "outage and pause"])
def test_a_node_recovers_from_a_rotation_during_an_outage(auto_manage: bool, paused: bool) -> None:
    world = rotated()
    node = world.live(manageable(auto_manage=auto_manage), until=5 * MINUTE)
    assert (node.management, node.bmc.failure) == (M.ENROLL, BmcFailure.UNREACHABLE)
    if paused:
        node = world.live(replace(node, paused=Pause("fire drill", world.now)), until=5 * MINUTE)
        node = replace(node, paused=None)
    world.answer = lambda: ROTATED
    healed = world.live(node, until=HOUR)
    assert (healed.management, healed.bmc.good_version, healed.bmc.asked_at) == (M.MANAGEABLE, "v2", None)


@pytest.mark.parametrize("uses", ["the version that was seen", "the other version"])
def test_replicas_that_see_two_versions_of_a_secret_verify_rarely_and_continue_to_read(uses: str) -> None:
    world, store = World(), Alternating()
    world.secrets = store
    other = {"v1": "v2", "v2": "v1"}
    turned = uses == "the other version"
    world.answer = lambda: replace(READING, credential_version=other[store.seen()] if turned else store.seen())
    node = world.live(manageable(), until=20 * MINUTE)
    verified = world.times("verify")
    assert 1 <= len(verified) <= 4
    assert all(gap >= AGAIN_AFTER / SECOND for gap in gaps(verified))
    assert max(gaps(world.times())) <= 2 * MINUTE / SECOND, "its power stays fresh"
    assert (node.management, node.bmc.failure) == (M.MANAGEABLE, None)


def test_a_new_version_is_verified_at_once_even_after_a_recent_verification() -> None:
    world = World(replace(READING, credential_version="v3"))
    world.secrets = Secrets("v3")
    node = manageable({"good_version": "v2", "good_before": "v1", "verified_at": world.now})
    assert world.live(node, until=2 * MINUTE).bmc.good_version == "v3"
    assert len(world.times("verify")) == 1
