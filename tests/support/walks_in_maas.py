"""What happens to a machine in MAAS, as stimuli of walks over the states of its node."""

from __future__ import annotations

from msgspec.structs import replace

from farrier.model.maas.reading import StatusNumber as S
from farrier.model.machine.bmc import PowerState
from tests.support.exploration import Place, Stimulus
from tests.support.nodes import SECOND
from tests.support.played_region import OURS, SOMEBODY, Shown, gone_on, seen


def read(place: Place) -> Place | None:
    """The region's observer reads the machine."""
    if not place.region_answers or place.node.maas_id is None:
        return None
    now = place.now + SECOND
    return replace(place, now=now, node=replace(place.node, maas=seen(place.machine, now, place.node.maas)))


def comes_to(machine: Shown | None, *when: S) -> Stimulus:
    """A person changes a machine that has one of these statuses to `machine`, and the observer reads it."""

    def come(place: Place) -> Place | None:
        if place.machine is None or place.machine.status not in when:
            return None
        if machine is None:
            return read(replace(place, machine=None))
        return read(switched(place, replace(machine, disks=place.machine.disks, rounds=place.machine.rounds)))

    return come


def goes_on(place: Place) -> Place | None:
    if place.machine is None or gone_on(place.machine) == place.machine:
        return None
    return read(switched(place, gone_on(place.machine)))


def switched(place: Place, machine: Shown) -> Place:
    """The place after the region has changed the machine. In a walk that follows the cleaning, its BMC shows the
    power."""
    power = PowerState(machine.power) if machine.disks is not None else place.power
    return replace(place, machine=machine, power=power)


def is_not_erased(place: Place) -> Place | None:
    """The erasure of the machine ends, but its disks keep their data."""
    if place.machine is None or place.machine.status is not S.DISK_ERASING:
        return None
    return read(switched(place, replace(gone_on(place.machine), disks=place.machine.disks)))


def is_unlocked(place: Place) -> Place | None:
    """The person who locked the machine unlocks it."""
    if place.machine is None or not place.machine.locked:
        return None
    return read(replace(place, machine=replace(place.machine, locked=False)))


def fails(place: Place) -> Place | None:
    """The deployment of the machine fails."""
    if place.machine is None or place.machine.status is not S.DEPLOYING:
        return None
    return read(replace(place, machine=replace(place.machine, status=S.FAILED_DEPLOYMENT)))


def region_answers(answers: bool) -> Stimulus:
    return lambda place: replace(place, region_answers=answers) if place.region_answers is not answers else None


PROGRESS: dict[str, Stimulus] = {"is read": read, "goes on": goes_on, "is unlocked": is_unlocked}
OFTEN: dict[str, Stimulus] = {
    "release fails": comes_to(Shown(status=S.RELEASING_FAILED, owner=OURS), S.RELEASING),
    "is taken": comes_to(Shown(status=S.DEPLOYED, owner=SOMEBODY), S.READY),
    "is deleted": comes_to(None, S.DEPLOYED, S.READY, S.RELEASING),
}
SELDOM: dict[str, Stimulus] = {
    "is rescued": comes_to(Shown(status=S.RESCUE_MODE, owner=OURS), S.DEPLOYED),
    "is deployed again": comes_to(Shown(status=S.DEPLOYING, owner=OURS), S.READY),
}
