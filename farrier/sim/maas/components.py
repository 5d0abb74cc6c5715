"""The NICs and disks that commissioning finds in a machine, in the form in which MAAS stores them.

Known NICs and disks keep their IDs. Layout and links are made again, unless the caller of `commission` requested to
keep them.
"""

from __future__ import annotations

import re
import uuid

from farrier.sim.maas.hardware import DiskModel, Hardware, Nature, Nic
from farrier.sim.maas.records import Disk, Interface, Link, Machine, Partition, Remains
from farrier.sim.maas.region import Region
from farrier.sim.maas.show import usable

_UUID = re.compile(r"[\da-f]{8}-?(?:[\da-f]{4}-?){3}[\da-f]{12}", re.IGNORECASE)


def look(region: Region, machine: Machine) -> None:
    """Write the detected hardware into the machine's record."""
    hardware = region.nature_of(machine).hardware
    machine.cpu_count, machine.memory = hardware.cpu_count, hardware.memory
    _see_system(region, machine, hardware)
    if not machine.skip_networking:
        for interface in machine.interfaces:
            region.clear_links(interface)
        machine.interfaces = [kept for kept in machine.interfaces if kept.type == "physical"]
    for number, nic in enumerate(hardware.nics):
        _see_nic(region, machine, number, nic)
    if machine.skip_storage:  # then MAAS does not even record disks: metadataserver/builtin_scripts/hooks.py:982
        machine.skip_storage = False
        return
    known = {disk.serial: disk for disk in machine.disks if not disk.is_virtual}
    machine.disks = [known.get(model.serial) or _new_disk(region, model) for model in hardware.disks]
    lay_out(region, machine)


def use(machine: Machine, nature: Nature) -> None:
    """Write data everywhere on the disks, as the users of an installed system do."""
    machine.data = {disk.serial: Remains.EVERYWHERE for disk in nature.hardware.disks}


def wipe(machine: Machine, nature: Nature, *, quick: bool) -> None:
    """Erase the disks that are in the machine, as far as they do it."""
    for disk in nature.hardware.disks:
        if disk.serial in nature.lying_disks or disk.serial not in machine.data:
            continue
        if quick:
            machine.data[disk.serial] = Remains.BETWEEN_THE_ENDS
        else:
            del machine.data[disk.serial]


def _see_system(region: Region, machine: Machine, hardware: Hardware) -> None:
    """As MAAS does in metadataserver/builtin_scripts/hooks.py, _process_system_information: an unset serial number is
    removed, and a UUID that another machine has, too, is removed from all machines."""
    if hardware.serial and hardware.serial.lower() not in ("0123456789", "none"):
        machine.hardware_info["system_serial"] = hardware.serial
    else:
        machine.hardware_info.pop("system_serial", None)
    machine.hardware_uuid = hardware.uuid if _UUID.fullmatch(hardware.uuid) else None
    same = [other for other in region.machines.values() if other.hardware_uuid == machine.hardware_uuid]
    for other in same if len(same) > 1 else ():
        other.hardware_uuid = None


def _see_nic(region: Region, machine: Machine, number: int, nic: Nic) -> None:
    physical = [interface for interface in machine.interfaces if interface.type == "physical"]
    fresh = number >= len(physical)
    interface = Interface(id=region.next_id("interface"), name="", mac_address="") if fresh else physical[number]
    if fresh:
        interface.mac_address = nic.mac_address or _address_after(machine, number)
        region.macs[interface.mac_address] = machine.system_id
        machine.interfaces.append(interface)
    if machine.skip_networking and not fresh:
        return
    interface.name, interface.link_speed = nic.name, nic.speed
    interface.vendor, interface.product = "My Corporation", "My Gigabit Network Connection"
    interface.firmware_version = "1.63, 0x800009fa"
    boot = region.site.subnets[0]
    interface.vlan = boot.vlan if number == 0 else region.site.spare
    link_id = region.next_id("link")
    interface.links = [Link(id=link_id, mode="auto", subnet=boot) if number == 0 else Link(id=link_id, mode="link_up")]
    if number == 0 and interface.discovered is None:
        interface.discovered = (boot, f"10.20.{200 + interface.id // 250 % 50}.{interface.id % 250 + 1}")


def _address_after(machine: Machine, number: int) -> str:
    """Return a unique MAC address for the `number`-th NIC, derived from the address of the first NIC."""
    first = machine.interfaces[0].mac_address if machine.interfaces else machine.system_id
    made = uuid.uuid5(uuid.NAMESPACE_OID, f"{first} {number}").bytes
    return ":".join(f"{byte:02x}" for byte in (0x02, *made[:5]))


def _new_disk(region: Region, model: DiskModel) -> Disk:
    return Disk(
        id=region.next_id("disk"),
        name=model.name,
        model=model.model,
        serial=model.serial,
        id_path=model.id_path,
        size=model.size,
        tags=list(model.tags),
    )


# The layouts with the root on a virtual device, with the name of the device and the file system of its partition.
_ON_VIRTUAL = {"lvm": ("vgroot-lvroot", "lvm-pv"), "bcache": ("bcache0", "bcache-backing")}


def lay_out(region: Region, machine: Machine, *, layout: str = "flat", root_size: int | None = None) -> None:
    """Delete the partitions of the disks, and make a root partition on the boot disk unless `layout` is `blank` or
    `custom`.

    The cache of `bcache` uses any other disk. If there is no other disk, `bcache` results in `flat`.
    """
    machine.disks = [disk for disk in machine.disks if not disk.is_virtual]
    for disk in machine.disks:
        disk.partition = None
    boot = machine.boot_disk()
    if boot is None or layout in {"blank", "custom"}:
        return
    if layout == "bcache" and len(machine.disks) == 1:
        layout = "flat"
    name, fstype = _ON_VIRTUAL.get(layout, (None, "ext4"))
    number = region.next_id("partition")
    boot.partition = Partition(
        id=number,
        size=usable(root_size or boot.size),
        uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"partition {number}")),
        fs_uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"filesystem {number}")),
        mount_point="/" if name is None else None,
        fstype=fstype,
    )
    if name is not None:
        root = DiskModel(name=name, model="", serial="", id_path="", size=boot.partition.size, tags=())
        machine.disks.append(_new_disk(region, root))
        machine.disks[-1].is_virtual = True
