"""The operations on disks: the list, which one boots, the layout.

Called by `app` for a machine the caller may change. Only a Ready machine's storage can be changed; a layout destroys
what was there and may be asked for again.
"""

from __future__ import annotations

from farrier.sim.maas import inside, show_machine, show_storage
from farrier.sim.maas.call import Call, Refused, whole_number
from farrier.sim.maas.records import Disk, Machine
from farrier.sim.maas.region import Region
from farrier.sim.maas.statuses import Status

_LAYOUTS = ("bcache", "blank", "custom", "flat", "lvm", "vmfs6", "vmfs7")


def found(machine: Machine, wanted: str) -> Disk:
    """By id or name. Raises Refused 404."""
    for disk in machine.disks:
        if wanted in {str(disk.id), disk.name}:
            return disk
    raise Refused(404, "No BlockDevice matches the given query.")


def listed(region: Region, call: Call, machine: Machine) -> object:
    return [show_storage.listed_disk(machine, disk) for disk in machine.disks]


def set_boot_disk(region: Region, call: Call, machine: Machine, disk: Disk) -> object:
    if machine.status is not Status.READY:
        raise Refused(409, "Cannot set as boot disk because the machine is not Ready.")
    machine.boot_disk_id = disk.id
    return "OK"


def set_storage_layout(region: Region, call: Call, machine: Machine) -> object:
    if machine.status is not Status.READY:
        raise Refused(409, "Cannot change the storage layout on a machine that is not Ready.")
    layout = call.needed("storage_layout")
    if layout not in _LAYOUTS:
        choices = ", ".join(f"'{name}'" for name in _LAYOUTS)
        text = f"'{layout}' is not a valid storage_layout.  It should be one of: {choices}."
        raise Refused(400, {"storage_layout": [text]})
    if not machine.disks:
        raise Refused(400, "Failed to configure storage layout: Node doesn't have any storage devices to configure.")
    root = call.one("root_device")
    if root and root not in {str(disk.id) for disk in machine.disks}:
        choices = ", ".join(f"'{disk.id}'" for disk in machine.disks)
        reason = f"'{root}' is not a valid root_device.  It should be one of: {choices}."
        raise Refused(400, f"Failed to configure storage layout '{layout}': root_device: {reason}")
    size = call.one("root_size")
    root_size = whole_number(size, name="root_size") if size else None
    boot = machine.boot_disk()
    if root_size is not None and boot is not None and root_size > show_storage.usable(boot.size):
        reason = f"Size is too large. Maximum size is {show_storage.usable(boot.size)}."
        raise Refused(400, f"Failed to configure storage layout '{layout}': root_size: {reason}")
    inside.lay_out(region, machine, layout=layout, root_size=root_size)
    return show_machine.machine(region, machine)
