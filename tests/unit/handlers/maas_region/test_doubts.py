"""Doubtful results of a region: many machines are absent, or farrier's key belongs to another user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest

from farrier.config.sites import ObserveSite
from farrier.handlers.maas_region.handler import settle
from farrier.handlers.maas_region.observe import Findings, look
from farrier.model.loop.outcome import Transition, Update
from farrier.model.maas.reading import MaasFailure, MaasStatus
from farrier.model.maas.region import Cursor, DueMachine, Gap, MaasRegion, MissedEvents, RegionState
from farrier.sim.maas import ADMIN, Broken, Fault, Region
from tests.support.maas import World, world_with
from tests.support.maas_region import Caller, created
from tests.support.nodes import NOW

OBSERVED = MaasRegion(
    id=1,
    name="north",
    site="north",
    url="http://maas.test/MAAS",
    version=1,
    state=RegionState.OBSERVING,
    state_entered_at=NOW,
    created_at=NOW,
    cursor=Cursor(newest=0),
    configured_at=NOW,
)


class Place(NamedTuple):
    """A simulated region, and the real client of it."""

    region: Region
    world: World


@pytest.fixture
async def at() -> AsyncIterator[Place]:
    region = Region()
    async with world_with(region) as world:
        yield Place(region, world)


async def machines(at: Place, many: int, *, gone: int = 0) -> tuple[DueMachine, ...]:
    """So many due machines that were present at their last reading; the last `gone` of them are deleted now."""
    made = [await created(Caller(at.region), number) for number in range(1, many + 1)]
    for system_id in made[many - gone :]:
        at.region.forget(at.region.machines[system_id])
    return tuple(DueMachine(number, system_id, present=True) for number, system_id in enumerate(made, 1))


async def looked(at: Place, due: tuple[DueMachine, ...], **fields: Any) -> Findings:
    region = msgspec.structs.replace(OBSERVED, due=due, **fields)
    return await look(at.world.client, region, NOW, events=False, identify=False)


def absent(found: Findings) -> int:
    return sum(reading.state is MaasStatus.ABSENT for reading in found.readings)


async def test_a_few_absent_machines_are_recorded_as_absent(at: Place) -> None:
    found = await looked(at, await machines(at, 8, gone=3), present=8)
    assert (found.failure, absent(found), len(found.readings)) == (None, 3, 8)


async def test_no_machine_is_recorded_as_absent_if_the_region_has_none_of_its_machines(at: Place) -> None:
    """The region was restored without machines, or is another region."""
    found = await looked(at, await machines(at, 60, gone=60), present=10_000)
    assert found.failure is not None
    assert found.failure.failure is MaasFailure.ABSENT
    assert "check [maas] url" in found.failure.detail
    assert found.readings == []
    assert at.world.observed.operations.count("machine") <= 7, "not every machine is read by itself"
    left = settle(OBSERVED, found, NOW, ObserveSite())
    assert isinstance(left, Transition)
    assert (left.to.state, left.to.swept_at) == (RegionState.FAILING, None)


async def test_readings_of_present_machines_count_while_absences_are_doubted(at: Place) -> None:
    found = await looked(at, await machines(at, 20, gone=5), present=60)
    assert found.lost_too_many
    assert (absent(found), len(found.readings)) == (0, 15)


async def test_absences_of_several_observations_are_added_up(at: Place) -> None:
    due = await machines(at, 8, gone=2)
    assert absent(await looked(at, due, present=100, lost=3)) == 2
    found = await looked(at, due, present=100, lost=4)
    assert (absent(found), found.lost_too_many) == (0, True)


async def test_machines_that_were_not_present_before_do_not_count_as_lost(at: Place) -> None:
    due = tuple(DueMachine(one.node, one.system_id) for one in await machines(at, 8, gone=8))
    found = await looked(at, due)
    assert (found.failure, absent(found)) == (None, 8)


async def test_a_site_may_configure_that_all_machines_may_be_absent(at: Place) -> None:
    due = await machines(at, 8, gone=8)
    region = msgspec.structs.replace(OBSERVED, due=due, present=8, lost=7)
    found = await look(at.world.client, region, NOW, events=False, identify=False, most_lost_percent=100)
    assert (found.failure, absent(found)) == (None, 8)


async def test_malformed_ids_are_unreadable_and_no_failure_of_the_region(at: Place) -> None:
    (one,) = await machines(at, 1)
    odd = tuple(DueMachine(number, f"gpu-{number}") for number in range(2, 8))
    found = await looked(at, (one, *odd))
    assert found.failure is None
    assert sorted(found.unreadable) == [each.system_id for each in odd]
    assert [reading.system_id for reading in found.readings] == [one.system_id]


async def test_a_key_of_another_user_fails_the_region_while_the_former_user_holds_machines(at: Place) -> None:
    (one,) = await machines(at, 1)
    at.region.machines[one.system_id].owner = "former"
    region = msgspec.structs.replace(OBSERVED, username="former", held=(one.system_id,))
    found = await look(at.world.client, region, NOW, events=True, identify=True)
    assert found.failure is not None
    assert found.failure.failure is MaasFailure.AUTH
    assert "configure a key of 'former'" in found.failure.detail
    assert settle(region, found, NOW, ObserveSite()).to.username == "former"


async def test_a_key_of_another_user_is_accepted_after_the_former_user_holds_no_machine(at: Place) -> None:
    (one,) = await machines(at, 1)
    region = msgspec.structs.replace(OBSERVED, username="former", held=(one.system_id,))
    left = settle(region, await look(at.world.client, region, NOW, events=True, identify=True), NOW, ObserveSite())
    assert isinstance(left, Update)
    assert left.to.username == ADMIN.username
    assert MissedEvents(at=NOW) in left.writes, "owners of machines have to be compared anew"


async def test_late_events_are_found_behind_more_than_a_page_of_other_events(at: Place) -> None:
    """Tested with two gaps that are further apart than one page of events."""
    (one,) = await machines(at, 1)
    machine = at.region.machines[one.system_id]
    for _ in range(3500):
        at.region.note(machine, "Rebooting")
    ids = [event.id for event in at.region.events.of(None)]
    late = [ids[10], ids[2500]]
    region = msgspec.structs.replace(OBSERVED, cursor=_all_but(ids, late))
    found = await look(at.world.client, region, NOW, events=True, identify=False)
    assert (found.complete, found.cursor) == (True, Cursor(newest=ids[-1]))
    assert at.world.observed.operations == ["events"] * 3


def _all_but(ids: list[int], late: list[int]) -> Cursor:
    return Cursor(newest=ids[-1], gaps=tuple(Gap(each, each, NOW) for each in late))


async def test_the_first_absent_machine_counts_as_absent_only_if_other_machines_are_present(at: Place) -> None:
    """A machine in motion is read before all others, so in another region it would be the only machine that is
    missed."""
    here, *gone = await machines(at, 6, gone=5)
    others = tuple(one.system_id for one in gone[1:])
    found = await looked(at, (gone[0],), present=6, known=others)
    assert (found.lost_too_many, found.readings) == (True, [])
    assert absent(await looked(at, (gone[0],), present=6, known=(*others, here.system_id))) == 1


async def test_a_site_with_few_machines_may_lose_them_all(at: Place) -> None:
    one, two, three = await machines(at, 3, gone=3)
    assert absent(await looked(at, (one,), present=3, known=(one.system_id, two.system_id, three.system_id))) == 1


async def test_a_machine_does_not_count_as_absent_while_others_cannot_be_read(at: Place) -> None:
    gone, *others = await machines(at, 6, gone=6)
    at.region.faults.add(Fault(path="/MAAS/api/2.0/machines/", latency=timedelta(0)))
    at.region.faults.add(Fault(path="/MAAS/api/2.0/machines/", broken=Broken.GARBLE))
    found = await looked(at, (gone,), present=6, known=tuple(one.system_id for one in others))
    assert (absent(found), found.failure is None) == (0, False)
