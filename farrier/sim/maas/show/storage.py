"""Shows disks and partitions as MAAS does, with exactly the recorded fields.

Every response with a machine uses this module, which only reads. While a machine is being released, its file systems
are not shown, because MAAS has already removed the file systems of the deployment.
"""

from __future__ import annotations

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas.records import Disk, Machine, Partition

_BLOCK = 4 << 20
# The space that a partition table and its alignment take from a disk.
_TABLE = 6 << 20


def usable(size: int) -> int:
    """Return the size of a disk's only partition."""
    return (size - _TABLE) // _BLOCK * _BLOCK


def disk(owner: Machine, shown: Disk) -> dict[str, object]:
    used = shown.partition is not None
    return {
        "id": shown.id,
        "name": shown.name,
        "type": "virtual" if shown.is_virtual else "physical",
        "path": f"/dev/disk/by-dname/{shown.name}",
        "id_path": shown.id_path,
        "model": shown.model,
        "serial": shown.serial,
        "firmware_version": None,
        "size": shown.size,
        "block_size": 512,
        "available_size": 0 if used else usable(shown.size),
        "used_size": usable(shown.size) + _TABLE if used else 0,
        "used_for": "GPT partitioned with 1 partition" if used else "Unused",
        "tags": shown.tags,
        "filesystem": _filesystem("ext4", "/", shown.name) if shown.is_virtual else None,
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
    filesystem = _filesystem(shown.fstype, shown.mount_point, shown.fs_uuid)
    used = f"ext4 formatted filesystem mounted at {shown.mount_point}" if shown.mount_point else shown.fstype
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
        "used_for": used if mounted else "Unused",
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/blockdevices/{on.id}/partition/{shown.id}",
    }


def _filesystem(fstype: str, mount_point: str | None, uuid: str) -> dict[str, object]:
    return {"fstype": fstype, "label": "root", "uuid": uuid, "mount_point": mount_point, "mount_options": None}
