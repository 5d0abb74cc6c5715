"""How MAAS shows disks and partitions, with exactly the recorded fields.

Called for machines and for lists of block devices, which differ in one field. It only reads. While a machine is being
released its file systems are not shown: MAAS has dropped those of the deployment by then.
"""

from __future__ import annotations

from farrier.sim.maas.records import Disk, Machine, Partition
from farrier.sim.maas.statuses import Status

_BLOCK = 4 << 20
# What a partition table and its alignment take from a disk.
_TABLE = 6 << 20


def usable(size: int) -> int:
    """How large the one partition of a disk is."""
    return (size - _TABLE) // _BLOCK * _BLOCK


def disk(owner: Machine, shown: Disk) -> dict[str, object]:
    """As a machine holds it."""
    return {**listed_disk(owner, shown), "firmware_version": None}


def listed_disk(owner: Machine, shown: Disk) -> dict[str, object]:
    """As `blockdevices/` lists it."""
    used = shown.partition is not None
    return {
        "id": shown.id,
        "name": shown.name,
        "type": "physical",
        "path": f"/dev/disk/by-dname/{shown.name}",
        "id_path": shown.id_path,
        "model": shown.model,
        "serial": shown.serial,
        "size": shown.size,
        "block_size": 512,
        "available_size": 0 if used else usable(shown.size),
        "used_size": usable(shown.size) + _TABLE if used else 0,
        "used_for": "GPT partitioned with 1 partition" if used else "Unused",
        "tags": shown.tags,
        "filesystem": None,
        "partition_table_type": "GPT" if used else None,
        "partitions": [_partition(owner, shown, shown.partition)] if shown.partition else [],
        "numa_node": 0,
        "storage_pool": None,
        "uuid": None,
        "system_id": owner.system_id,
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/blockdevices/{shown.id}/",
    }


def _partition(owner: Machine, on: Disk, shown: Partition) -> dict[str, object]:
    mounted = owner.status is not Status.RELEASING
    filesystem = {
        "fstype": "ext4",
        "label": "root",
        "uuid": shown.fs_uuid,
        "mount_point": shown.mount_point,
        "mount_options": None,
    }
    return {
        "id": shown.id,
        "uuid": shown.uuid,
        "size": shown.size,
        "bootable": False,
        "path": f"/dev/disk/by-dname/{on.name}-part2",
        "type": "partition",
        "device_id": on.id,
        "system_id": owner.system_id,
        "tags": [],
        "filesystem": filesystem if mounted else None,
        "used_for": f"ext4 formatted filesystem mounted at {shown.mount_point}" if mounted else "Unused",
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/blockdevices/{on.id}/partition/{shown.id}",
    }
