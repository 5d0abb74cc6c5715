"""Stage `configure_storage`: sets the boot disk that the site configures, and lays out this disk.

The stage reads the machine's disks, sets the matching disk as the boot disk, and then lays out this disk, which
destroys the disk's data. An existing layout that matches is not changed. The stage changes only a ready machine. If
several disks match, the stage fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import assert_never

from farrier.config.sites import Layout, StorageSite
from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, listed
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding.preparation import unready
from farrier.model.maas.changes import SetBootDisk, SetStorageLayout
from farrier.model.maas.reading import BlockDevice, DiskPartition, Filesystem, Machine, StatusNumber
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient

GB = 10**9
# MAAS rounds partitions to 4 MiB at either end.
_ROUNDING = 8 << 20
# The file system that MAAS reports for a partition under a volume group, and under a cached device.
_UNDER_LVM = "lvm-pv"
_UNDER_BCACHE = "bcache-backing"


def configure_storage(node: Node, now: datetime, policy: Policy) -> StageResult:
    decide = partial(_decided, node, now, region.site_of(node, policy).storage)
    return region.with_machine(node, policy, decide, name="configure_storage")


async def _decided(
    node: Node, now: datetime, wanted: StorageSite, machine: Machine, _client: MaasClient
) -> Settled | region.Send:
    """Return the change for the first difference from the configuration; without one, the result of the stage."""
    if machine.status != StatusNumber.READY:
        return unready(node, machine)
    disk = _boot_disk(machine, wanted)
    if isinstance(disk, Failed):
        return disk
    if machine.boot_disk is None or machine.boot_disk.id != disk.id:
        return region.asking(node, now, SetBootDisk(device=disk.id), f"boot from {_named(disk)}")
    size = wanted.root_size_gb * GB if wanted.root_size_gb is not None else None
    layout = SetStorageLayout(layout=wanted.layout.value, root_size=size)
    if _shows(machine.blockdevice_set, disk, layout=wanted.layout, size=size):
        return Done(reason=f"{_named(disk)} is the boot disk, with layout {wanted.layout}")
    # MAAS decides the result of these layouts: it omits a missing cache, and scripts may define any layout.
    if wanted.layout in {Layout.CUSTOM, Layout.BCACHE} and region.was_asked(node, repr(layout)):
        return Done(reason=f"{_named(disk)} is the boot disk, and its layout was applied: {wanted.layout}")
    return region.asking(node, now, layout, f"apply layout {wanted.layout} to {_named(disk)}")


def _boot_disk(machine: Machine, wanted: StorageSite) -> BlockDevice | Failed:
    """Return the only disk that matches the configuration; otherwise a failure that lists the disks."""
    physical = [disk for disk in machine.blockdevice_set if disk.type in {None, "physical"}]
    pattern = re.compile(wanted.boot_disk_model, re.IGNORECASE)
    found = [disk for disk in physical if pattern.search(disk.model or "")]
    found = found or [disk for disk in physical if pattern.search(disk.id_path or "")]
    if len(found) == 1:
        return found[0]
    seen = listed(_named(disk) for disk in (found or physical))
    if found:
        problem = (
            f"storage.boot_disk_model {wanted.boot_disk_model!r} must match one disk; it matches {len(found)}: {seen}"
        )
    else:
        problem = f"no disk matches storage.boot_disk_model {wanted.boot_disk_model!r}; disks: {seen}"
    return Failed(failure=FailureClass.BOSS_DISK_NOT_FOUND, detail=problem)


def _named(disk: BlockDevice) -> str:
    return f"{disk.name or disk.id} ({disk.model or 'no model'})"


def _shows(disks: Sequence[BlockDevice], boot: BlockDevice, *, layout: Layout, size: int | None) -> bool:
    match layout:
        case Layout.FLAT:
            root = next((part for part in boot.partitions if _is_root(part.filesystem)), None)
            return _is_root(boot.filesystem) or (root is not None and _as_large(root, size))
        case Layout.LVM:
            return _under(disks, boot, _UNDER_LVM, size)
        case Layout.BCACHE:
            return _under(disks, boot, _UNDER_BCACHE, size)
        case Layout.BLANK:
            return not any(disk.partitions or disk.filesystem or disk.type == "virtual" for disk in disks)
        case Layout.CUSTOM:
            return False
        case _ as never:
            assert_never(never)


def _under(disks: Sequence[BlockDevice], boot: BlockDevice, fstype: str, size: int | None) -> bool:
    """Return whether the root file system is on a virtual device of MAAS that uses a partition of the boot disk."""
    on_virtual = any(disk.type == "virtual" and _is_root(disk.filesystem) for disk in disks)
    below = (part for part in boot.partitions if part.filesystem is not None and part.filesystem.fstype == fstype)
    return on_virtual and any(_as_large(part, size) for part in below)


def _is_root(filesystem: Filesystem | None) -> bool:
    return filesystem is not None and filesystem.mount_point == "/"


def _as_large(partition: DiskPartition, size: int | None) -> bool:
    return size is None or partition.size is None or abs(partition.size - size) <= _ROUNDING
