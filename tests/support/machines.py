"""Machines of a simulated region, brought to any status by the calls and events that bring a real one there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from msgspec.structs import replace

from farrier.handlers.node.changes import with_fields
from farrier.model.maas.changes import Commission, Deploy, NewMachine, PowerAccess, Release
from farrier.sim.maas import ADMIN, CommissionFate, DeployFate, Durations, EraseFate, Hardware, Nature, Region, Status
from farrier.sim.maas.records import Machine
from tests.support.nodes import MARK
from tests.support.stages import Stand

LONG = timedelta(hours=3)
# Switching power takes a minute, so that a test can see the state in between.
SLOW_POWER = Durations(power=timedelta(minutes=1))
COMMENT = f"farrier onboarding 11 {MARK}: deploy 1"


async def created(stand: Stand, *, hostname: str | None = None, description: str = "") -> Machine:
    """Create a machine with the node's name and address, and give the node its id."""
    new = NewMachine(
        hostname=hostname or stand.node.name,
        mac_addresses=stand.node.macs,
        power=PowerAccess(address="10.0.0.1", username="root", password="calvin"),
        description=description,
    )
    made = await stand.world.client.create(new)
    stand.node = with_fields(stand.node, maas_id=made.system_id, maas_created=True)
    return stand.region.machines[made.system_id]


async def _do(stand: Stand, what: Commission | Deploy | Release) -> None:
    assert stand.node.maas_id is not None
    await stand.world.client.do(await stand.world.client.machine(stand.node.maas_id), what)


async def _new(stand: Stand) -> None:
    pass


async def _commissioning(stand: Stand) -> None:
    await _do(stand, Commission(skip_networking=False, skip_storage=False))
    stand.region.advance(timedelta(minutes=2))


async def _ready(stand: Stand) -> None:
    await _commissioning(stand)
    stand.region.advance(LONG)


async def _deploying(stand: Stand, comment: str = COMMENT) -> None:
    await _ready(stand)
    await _do(stand, Deploy(user_data="#cloud-config\n", comment=comment))
    stand.region.advance(timedelta(minutes=2))


async def _deployed(stand: Stand) -> None:
    await _deploying(stand)
    stand.region.advance(LONG)


async def _releasing(stand: Stand) -> None:
    await _deployed(stand)
    await _do(stand, Release(comment="x"))


async def _erasing(stand: Stand) -> None:
    await _deployed(stand)
    await _do(stand, Release(comment="x", erase=True))
    stand.region.advance(timedelta(minutes=2))


async def _erasing_fails(stand: Stand) -> None:
    await _erasing(stand)
    stand.region.advance(LONG)


_WAYS: Mapping[Status, Callable[[Stand], Awaitable[None]]] = {
    Status.NEW: _new,
    Status.COMMISSIONING: _commissioning,
    Status.FAILED_COMMISSIONING: _ready,
    Status.TESTING: _ready,
    Status.FAILED_TESTING: _ready,
    Status.READY: _ready,
    Status.DEPLOYING: _deploying,
    Status.DEPLOYED: _deployed,
    Status.FAILED_DEPLOYMENT: _deployed,
    Status.RELEASING: _releasing,
    Status.DISK_ERASING: _erasing,
    Status.FAILED_DISK_ERASING: _erasing_fails,
}

_FATES: Mapping[Status, Nature] = {
    Status.FAILED_COMMISSIONING: Nature(commission=CommissionFate.SCRIPT_FAILS),
    Status.FAILED_TESTING: Nature(commission=CommissionFate.TESTS_FAIL),
    Status.FAILED_DEPLOYMENT: Nature(deploy=DeployFate.NO_DATASOURCE),
    Status.FAILED_DISK_ERASING: Nature(erase=EraseFate.FAILS),
}


async def machine_in(stand: Stand, status: Status, hardware: Hardware | None = None) -> Machine:
    """The node's machine in this status, allocated to farrier's user if the status implies an owner. If no call of the
    client leads to the status, the status is set directly in the machine's record."""
    machine = await created(stand)
    stand.region.natures[machine.system_id] = replace(_FATES.get(status, Nature()), hardware=hardware or Hardware())
    way = _WAYS.get(status)
    await (way or _deployed)(stand)
    stand.region.natures.pop(machine.system_id)
    if status is Status.TESTING or way is None:
        machine.owner = None if status in (Status.MISSING, Status.RETIRED) else ADMIN.username
        stand.region.move(machine, status)
    assert machine.status is status
    return machine


def slow_region() -> Region:
    """A region in which switching power takes a minute."""
    return Region(durations=SLOW_POWER)
