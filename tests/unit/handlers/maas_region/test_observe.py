"""One observation of a simulated region with the real client: its findings, and faults that do not count against a
machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.handlers.maas_region.observe import Findings, look
from farrier.model.maas.reading import MaasFailure, MaasStatus
from farrier.model.maas.region import Cursor, DueMachine, MaasRegion, RegionState
from farrier.sim.maas import ADMIN, Broken, Fault, Region, Status
from tests.support.maas import World, world_with
from tests.support.maas_region import Caller, created
from tests.support.nodes import NOW

LIST = "/MAAS/api/2.0/machines/"
HUGE = b'["' + b"x" * (10 << 20) + b'"]'


class Looker:
    """Observes a region with machines repeatedly."""

    def __init__(self, region: Region, world: World) -> None:
        self.region = region
        self.world = world
        self.resource = MaasRegion(
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

    async def machines(self, many: int) -> tuple[DueMachine, ...]:
        made = [await created(Caller(self.region), number) for number in range(1, many + 1)]
        return tuple(DueMachine(number, system_id) for number, system_id in enumerate(made, 1))

    async def look(self, *due: DueMachine, events: bool = False, identify: bool = False, **fields: Any) -> Findings:
        self.world.observed.requests.clear()
        region = msgspec.structs.replace(self.resource, due=due, **fields)
        found = await look(self.world.client, region, NOW, events=events, identify=identify)
        self.resource = msgspec.structs.replace(self.resource, cursor=found.cursor)
        return found

    @property
    def asked(self) -> list[str]:
        return self.world.observed.operations


@pytest.fixture
async def looker() -> AsyncIterator[Looker]:
    region = Region()
    async with world_with(region) as world:
        yield Looker(region, world)


def states(found: Findings) -> dict[str, MaasStatus]:
    return {reading.system_id: reading.state for reading in found.readings}


async def test_machines_are_read_fifty_at_a_time(looker: Looker) -> None:
    due = await looker.machines(120)
    found = await looker.look(*due)
    assert looker.asked == ["machines"] * 3
    assert {reading.node for reading in found.readings} == {one.node for one in due}
    assert found.failure is None


async def test_urgent_machines_are_read_and_reported_before_the_others(looker: Looker) -> None:
    """Other machines fill up the request. The next observation follows at once and reads the rest."""
    first, *others = await looker.machines(120)
    found = await looker.look(DueMachine(first.node, first.system_id, urgent=True), *others)
    assert looker.asked == ["machines"]
    assert {reading.node for reading in found.readings} == {first.node, *(one.node for one in others[:49])}


async def test_a_machine_missing_in_a_list_is_absent_only_after_a_request_for_it(looker: Looker) -> None:
    kept, gone = await looker.machines(2)
    looker.region.forget(looker.region.machines[gone.system_id])
    found = await looker.look(kept, gone)
    assert looker.asked == ["machines", "machine"]
    assert states(found) == {kept.system_id: MaasStatus.NEW, gone.system_id: MaasStatus.ABSENT}


async def test_a_false_empty_list_makes_no_machine_absent(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    looker.region.faults.add(Fault(path=LIST, body=b"[]", content_type="application/json"))
    assert states(await looker.look(one)) == {one.system_id: MaasStatus.NEW}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(path=LIST, broken=Broken.GARBLE),
        Fault(path=LIST, broken=Broken.TRUNCATE),
        Fault(path=LIST, body=HUGE, content_type="application/json"),
        Fault(path=LIST, status=500, body=b"oops", content_type="text/plain", times=3),
    ],
)
async def test_machines_are_read_one_by_one_if_their_list_cannot_be_read(looker: Looker, fault: Fault) -> None:
    due = await looker.machines(3)
    looker.region.faults.add(fault)
    found = await looker.look(*due)
    assert found.failure is None
    assert set(states(found)) == {one.system_id for one in due}


async def test_an_unreadable_machine_does_not_hold_up_the_others(looker: Looker) -> None:
    odd, *others = await looker.machines(3)
    shown = (await Caller(looker.region).get("machines/")).json()
    twice = msgspec.json.encode([*shown, {**shown[0], "hostname": "another"}])
    looker.region.faults.add(Fault(path=LIST, body=twice, content_type="application/json"))
    looker.region.faults.add(Fault(machine=odd.system_id, body=b"{}", content_type="application/json"))
    found = await looker.look(odd, *others)
    assert found.failure is None
    assert {name: error.failure for name, error in found.unreadable.items()} == {odd.system_id: MaasFailure.PROTOCOL}
    assert set(states(found)) == {one.system_id for one in others}


async def test_several_unreadable_machines_are_a_failure_of_the_region(looker: Looker) -> None:
    due = await looker.machines(9)
    looker.region.faults.add(Fault(path=LIST + "*", broken=Broken.GARBLE, times=None))
    found = await looker.look(*due)
    assert found.failure is not None
    assert found.failure.failure is MaasFailure.PROTOCOL
    assert not found.readings
    assert looker.asked.count("machine") <= 5


async def test_a_response_about_another_machine_is_unreadable(looker: Looker) -> None:
    mine, other = await looker.machines(2)
    shown = (await Caller(looker.region).get(f"machines/{other.system_id}/")).content
    looker.region.faults.add(Fault(path=LIST, body=b"[" + shown + b"]", content_type="application/json"))
    looker.region.faults.add(Fault(machine=mine.system_id, body=shown, content_type="application/json"))
    found = await looker.look(mine)
    assert not found.readings
    assert found.unreadable[mine.system_id].failure is MaasFailure.PROTOCOL


async def test_an_unknown_status_is_read_as_other(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    shown = (await Caller(looker.region).get("machines/")).json()
    odd = msgspec.json.encode([{**shown[0], "status": 99, "status_name": "Levitating\0"}])
    looker.region.faults.add(Fault(path=LIST, body=odd, content_type="application/json"))
    (reading,) = (await looker.look(one)).readings
    assert (reading.state, reading.detail.status) == (MaasStatus.UNKNOWN, 99)
    assert reading.detail.status_name == "Levitating\ufffd"


@pytest.mark.parametrize(("status", "in_rescue"), [(Status.EXITING_RESCUE_MODE, True), (Status.DEPLOYED, False)])
async def test_rescue_mode_is_recognised_by_the_status(looker: Looker, status: Status, in_rescue: bool) -> None:
    (due,) = await looker.machines(1)
    looker.region.move(looker.region.machines[due.system_id], status)
    (reading,) = (await looker.look(due)).readings
    assert reading.in_rescue is in_rescue


async def test_a_busy_region_ends_the_observation_and_makes_no_machine_absent(looker: Looker) -> None:
    due = await looker.machines(3)
    looker.region.faults.add(Fault(status=503, headers={"Retry-After": "60"}, times=None))
    found = await looker.look(*due, events=True)
    assert found.failure is not None
    assert found.failure.failure is MaasFailure.BUSY
    assert looker.asked == ["events"]
    assert (found.readings, found.complete, found.cursor) == ([], False, Cursor(newest=0))


async def test_the_first_observation_begins_after_the_newest_event(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    looker.region.move(looker.region.machines[one.system_id], Status.READY)
    newest = looker.region.events.of(None)[-1].id
    found = await looker.look(one, events=True, identify=True, cursor=Cursor())
    assert (found.cursor, found.complete, found.begun_anew, found.named) == (Cursor(newest=newest), True, True, {})
    assert found.username == ADMIN.username
    assert states(found) == {one.system_id: MaasStatus.READY}


async def test_a_region_without_events_is_begun_at_zero_and_only_once(looker: Looker) -> None:
    found = await looker.look(events=True, cursor=Cursor())
    assert found.cursor == Cursor(newest=0)
    again = await looker.look(events=True)
    assert (again.begun_anew, looker.asked) == (False, ["events"])


async def test_events_are_reported_once_and_by_machine(looker: Looker) -> None:
    moved, noted = await looker.machines(2)
    machines = looker.region.machines
    looker.region.move(machines[moved.system_id], Status.READY)
    looker.region.note(machines[noted.system_id], "Rebooting")
    found = await looker.look(events=True)
    assert found.named == {moved.system_id: True, noted.system_id: False}
    assert (await looker.look(events=True)).named == {}


async def test_all_pages_of_events_are_read(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    for _ in range(2500):
        looker.region.note(looker.region.machines[one.system_id], "Rebooting")
    found = await looker.look(events=True)
    assert looker.asked == ["events"] * 3
    assert (found.complete, found.cursor.newest) == (True, looker.region.events.of(None)[-1].id)


async def test_the_next_observation_continues_if_events_exceed_the_limit_of_pages(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    for _ in range(10_500):
        looker.region.note(looker.region.machines[one.system_id], "Rebooting")
    found = await looker.look(events=True)
    assert (len(looker.asked), found.complete) == (10, False)
    assert (await looker.look(events=True)).complete


async def test_a_page_that_fails_leaves_the_cursor_after_the_pages_that_were_read(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    for _ in range(1500):
        looker.region.note(looker.region.machines[one.system_id], "Rebooting")
    first = looker.region.events.of(None)[999].id
    ok = looker.region.faults.add(Fault(op="query", latency=timedelta(0)))
    looker.region.faults.add(Fault(op="query", broken=Broken.GARBLE, times=None))
    found = await looker.look(events=True)
    assert (ok.struck, found.complete, found.cursor.newest) == (1, False, first)
    assert found.failure is not None


async def test_a_region_restored_to_an_earlier_state_is_read_from_the_beginning(looker: Looker) -> None:
    (one,) = await looker.machines(1)
    looker.region.move(looker.region.machines[one.system_id], Status.READY)
    newest = looker.region.events.of(None)[-1].id
    found = await looker.look(events=True, cursor=Cursor(newest=newest + 1000))
    assert (found.begun_anew, found.complete, found.cursor) == (True, True, Cursor(newest=newest))
