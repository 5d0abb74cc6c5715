"""Converts a region's responses about machines to readings. Pure.

Texts are shortened to a length that operators can read, and characters that the database cannot store are removed. An
invalid text of one machine must not make the readings of all other machines fail.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from farrier.model.maas.reading import RESCUE, HardwareInfo, MaasStatus, Machine, Recorded
from farrier.model.maas.region import DueMachine, Reading
from farrier.model.node.evidence import Part

# Number of characters. MAAS keeps the whole text.
LONGEST_TEXT = 500


def seen(due: DueMachine, machine: Machine, now: datetime) -> Reading:
    """Return the reading of a requested machine."""
    return Reading(
        node=due.node,
        system_id=due.system_id,
        state=machine.state,
        read_at=now,
        in_rescue=machine.status in RESCUE,
        disks=disks_of(machine),
        detail=Recorded(**{name: _storable(getattr(machine, name)) for name in Recorded.__struct_fields__}),
    )


def disks_of(machine: Machine) -> tuple[Part, ...] | None:
    """Return the physical disks that the commissioning found; None if MAAS lists none, which also holds for a machine
    that was never commissioned. A disk without a serial number has its path instead, as in the check of a released
    machine."""
    found = [disk for disk in machine.blockdevice_set if disk.type == "physical"]
    parts = tuple(
        Part(serial=plain((disk.serial or "").strip() or disk.id_path or str(disk.id)), size=disk.size or 0)
        for disk in found
    )
    return parts or None


def absent(due: DueMachine, now: datetime) -> Reading:
    """Return the reading of a machine that the region reports as missing."""
    return Reading(node=due.node, system_id=due.system_id, state=MaasStatus.ABSENT, read_at=now)


def plain(text: str) -> str:
    """Return `text` without the characters that the database cannot store, shortened to the longest allowed length."""
    return text.replace("\0", "\ufffd")[:LONGEST_TEXT]


def _storable(value: object) -> Any:
    """Return a value that the database can store. Times of the region are in UTC, even if they have no zone."""
    match value:
        case str():
            return plain(value)
        case HardwareInfo():
            return HardwareInfo(**{name: _storable(getattr(value, name)) for name in HardwareInfo.__struct_fields__})
        case datetime() if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        case _:
            return value
