"""The operations on disks: choose the boot disk, set the layout.

Only a Ready machine's storage can be changed. A new layout destroys the former layout, and the same layout may be
requested again.
"""

from __future__ import annotations

import math
import re

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import components, show
from farrier.sim.maas.http.call import Call, Refused
from farrier.sim.maas.records import Disk, Machine
from farrier.sim.maas.region import Region

# The size of the EFI partition of every boot disk (maasserver/storage_layouts.py:33).
_EFI_PARTITION = 512 * 1024 * 1024


def found(machine: Machine, wanted: str) -> Disk:
    """Return a disk by ID or name. Raises Refused 404."""
    for disk in machine.disks:
        if wanted in {str(disk.id), disk.name}:
            return disk
    raise Refused(404, "No BlockDevice matches the given query.")


def set_boot_disk(region: Region, call: Call, machine: Machine, disk: Disk) -> object:
    if machine.status is not Status.READY:
        raise Refused(409, "Cannot set as boot disk because the machine is not Ready.")
    machine.boot_disk_id = disk.id
    return "OK"


_SIZE = re.compile(r"(-?\d+)([KMGTPE]?)", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d*)?)%")
_THOUSANDS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def _size(call: Call, layout: str, *, whole: int) -> int | None:
    """Return the size in bytes that the field `root_size` sets. The field is a number with an optional decimal unit, or
    a percentage of the space that the EFI partition leaves on the disk (maasserver/fields_storage.py:32)."""
    text = call.one("root_size")
    if not text:
        return None
    share, size = _SHARE.fullmatch(text), _SIZE.fullmatch(text)
    if share is not None:
        return math.ceil((whole - _EFI_PARTITION) * float(share[1]) / 100)
    if size is None:
        raise Refused(400, f"Failed to configure storage layout '{layout}': root_size: Enter a valid value.")
    factor: int = 1000 ** _THOUSANDS[size[2].upper()]
    return int(size[1]) * factor


def set_storage_layout(region: Region, call: Call, machine: Machine) -> object:
    if machine.status is not Status.READY:
        raise Refused(409, "Cannot change the storage layout on a machine that is not Ready.")
    call.check()
    layout = call.needed("storage_layout")
    if not machine.disks:
        raise Refused(400, "Failed to configure storage layout: Node doesn't have any storage devices to configure.")
    root = call.one("root_device")
    if root and root not in {str(disk.id) for disk in machine.disks}:
        choices = ", ".join(f"'{disk.id}'" for disk in machine.disks)
        reason = f"'{root}' is not a valid root_device.  It should be one of: {choices}."
        raise Refused(400, f"Failed to configure storage layout '{layout}': root_device: {reason}")
    boot = machine.boot_disk()
    root_size = _size(call, layout, whole=0 if boot is None else boot.size)
    if root_size is not None and boot is not None and root_size > show.usable(boot.size):
        reason = f"Size is too large. Maximum size is {show.usable(boot.size)}."
        raise Refused(400, f"Failed to configure storage layout '{layout}': root_size: {reason}")
    components.lay_out(region, machine, layout=layout, root_size=root_size)
    return show.machine(region, machine)
