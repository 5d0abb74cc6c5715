"""The benchmarks of onboarding with a handful of nodes: all become active, and the figures are consistent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from bench import onboarding, onboarding_bare
from bench.calls import Calls
from bench.ground import Ground, ground
from bench.upstream import Pace
from farrier.sim.maas import Durations, Region, Status
from tests.support import pg

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full

NODES = 3
BRIEF = Durations(commission=timedelta(milliseconds=500), deploy=timedelta(milliseconds=500), sync=timedelta(seconds=4))
PACE = Pace(events_every=timedelta(seconds=1), motion_every=timedelta(seconds=5))


@pytest.fixture
async def clean(pg_server: pg.Server) -> AsyncIterator[Ground]:
    """A schema for a benchmark."""
    async with pg_server.copy(pg.EMPTY) as database, ground(database.dsn) as clean:
        yield clean


async def test_a_fleet_is_onboarded_and_the_end_of_each_wait_is_timed(clean: Ground) -> None:
    region = Region(durations=BRIEF)
    done = await onboarding.take_in(clean, region, PACE, NODES, within=timedelta(0), boot=timedelta(0))
    assert {machine.status for machine in region.machines.values()} == {Status.DEPLOYED}
    assert len(done.took) == NODES
    assert min(done.took) > onboarding.maas_takes(BRIEF), "no node is onboarded before MAAS has deployed it"
    # Each node waits three times: for Ready, for Deployed, and for the hardware sync.
    assert len(done.after_shown) == len(done.after_told) == 3 * NODES
    assert min(done.after_shown) > 0
    assert all(told >= shown for told, shown in zip(done.after_told, done.after_shown, strict=True))


async def test_the_bare_client_repeats_the_daemons_calls_and_deploys_the_same_machines(clean: Ground) -> None:
    seconds, calls = await onboarding_bare.by_farrier(clean, NODES)
    assert seconds > 0
    again = Region(durations=onboarding_bare.INSTANT)
    heard = Calls(again)
    took = await onboarding_bare.by_bare_client(calls, again)
    assert (took.calls, took.refused) == (len(calls.made), 0)
    assert took.seconds > 0
    assert {machine.status for machine in again.machines.values()} == {Status.DEPLOYED}
    for number in range(1, NODES + 1):
        of_one = [[made for made in all_.made if made.machine == f"gpu-{number}"] for all_ in (calls, heard)]
        assert of_one[0] == of_one[1], "both clients make the same calls for each machine, in the same order"
