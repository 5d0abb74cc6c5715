"""Disks: which there are, from which of them the system runs, and their health.

Sources: ABI/stable/sysfs-block; NVM Express Base Specification, SMART / Health Information log, Critical Warning;
smartctl(8) --json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import AgentError, Config, Host, run, tool

_SECTOR = 512  # bytes; /sys/block/*/size counts these, whatever the disk's blocks are
_TIMEOUT = 45.0  # seconds of a reading, of which the tool has half; a disk that works answers within one
# Mount points of the system. The disks below them are never erased.
_OF_SYSTEM = frozenset({"/", "/boot", "/boot/efi", "/usr", "/var", "/opt", "/etc"})
# Roots without a disk: an ephemeral or diskless system.
_DISKLESS = frozenset({"overlay", "tmpfs", "rootfs", "ramfs", "nfs", "nfs4", "squashfs", "9p", "virtiofs"})
_WARNINGS = {
    1: "the spare blocks are used up",
    4: "the reliability is degraded",
    8: "the disk is read-only",
    16: "the backup of its memory failed",
    32: "the persistent memory is unreliable",
}
_TOO_HOT = 2  # bit of the critical warning


def names(host: Host) -> list[str]:
    """Return the disks: block devices with hardware, not removable, not hidden, not empty. A path of multipath NVMe is
    hidden."""
    found = [path.split("/")[3] for path in host.glob("/sys/block/*/device")]
    return [
        name
        for name in found
        if size(host, name) and not any(host.number(f"/sys/block/{name}/{each}") for each in ("removable", "hidden"))
    ]


def size(host: Host, name: str) -> int:
    return (host.number(f"/sys/block/{name}/size") or 0) * _SECTOR


def serials(host: Host) -> dict[str, str]:
    """Return the serial numbers of the disks, which differ: the name is added to one that an earlier disk has, as
    namespaces of one NVMe disk have, and /dev/NAME takes the place of one that is missing, as in MAAS."""
    found: dict[str, str] = {}
    for name in names(host):
        block = f"/sys/block/{name}"
        vpd = host.content(f"{block}/device/vpd_pg80")[4:]  # SCSI Primary Commands, unit serial number, after 4 bytes
        unit = vpd.decode("ascii", "replace").strip("\0 ")
        known = (host.text(f"{block}/device/serial"), host.text(f"{block}/serial"), unit, f"/dev/{name}")
        serial = next(filter(None, known))
        found[name] = f"{serial}/{name}" if serial in found.values() else serial
    return found


def read(host: Host, _config: Config) -> dict[str, Any]:
    """Return the facts of the disks."""
    facts = []
    for name, serial in serials(host).items():
        device = f"/sys/block/{name}/device"
        firmware = host.text(f"{device}/firmware_rev") or host.text(f"{device}/rev") or None
        model = host.text(f"{device}/model") or None
        facts.append({"serial": serial, "model": model, "size": size(host, name), "firmware": firmware})
    return {"facts": {"disks": facts}, "conditions": []}


def health(host: Host, config: Config, name: str) -> dict[str, Any]:
    """Return the conditions of one disk, as far as smartctl is installed."""
    target, node, limit = serials(host)[name], host.path(f"/dev/{name}"), config.timeouts.get("disk", _TIMEOUT) / 2
    try:
        found = run("smartctl", "-j", "-H", "-A", "-n", "standby", node, timeout=limit)
    except AgentError as error:
        return {"conditions": [condition("disk/slow", f"{name}: {error}", QUARANTINE, target)]}
    if found is None:
        return {"conditions": [condition("disk/unread", "the health of disks is unknown: install smartmontools")]}
    return {"conditions": list(judged(json.loads(found.stdout), name, target))}


def judged(report: dict[str, Any], name: str, target: str) -> Iterator[Condition]:
    """Return what the JSON of smartctl says."""
    log = report.get("nvme_smart_health_information_log", {})
    warning = log.get("critical_warning", 0)
    said = [text for bit, text in _WARNINGS.items() if warning & bit]
    if not said and not report.get("smart_status", {}).get("passed", True):
        table = report.get("ata_smart_attributes", {}).get("table", [])
        worn = [f"{each['name']} {each['raw']['string']}" for each in table if each["when_failed"] == "now"]
        said = ["SMART predicts a failure", *worn]
    if said:
        yield condition("disk/failing", f"{name}: {', '.join(said)}", QUARANTINE, target)
    if warning & _TOO_HOT:
        yield condition("disk/hot", f"{name}: the temperature is beyond its limits", NOTE, target)


def of_system(host: Host) -> set[str]:
    """Return the disks from which the system runs. Raises AgentError if that cannot be told."""
    found: set[str] = set()
    for device, place, kind in _mounts(host):
        below = disks_below(host, device) if place in _OF_SYSTEM else set()
        if not below and place == "/" and kind not in _DISKLESS:
            raise AgentError(f"no disk is erased, because the disk of the system is unknown: / is {device} ({kind})")
        found |= below
    return found


def disks_below(host: Host, device: str) -> set[str]:
    """Return the disks on which a device lies: the disk of a partition, and those of a RAID or of a logical volume."""
    name = os.path.basename(os.path.realpath(host.path(device)))
    if not device.startswith("/dev/"):
        return set()
    if os.path.isdir(host.path(f"/sys/block/{name}")):
        slaves = [os.path.basename(path) for path in host.glob(f"/sys/block/{name}/slaves/*")]
        return {name} if not slaves else {disk for each in slaves for disk in disks_below(host, f"/dev/{each}")}
    return {path.split("/")[3] for path in host.glob(f"/sys/block/*/{name}")}


def free(host: Host, name: str) -> None:
    """Unmount what lies on a disk. Swap, RAID and logical volumes are left to the site's programs in drain.d."""
    for device, place, _kind in reversed(_mounts(host)):
        if name in disks_below(host, device):
            tool("umount", host.path(place), timeout=60)


def _mounts(host: Host) -> list[list[str]]:
    """Return device, place and kind of each mount; a place has its blanks as proc(5) escapes them."""
    return [line.split()[:3] for line in host.text("/proc/self/mounts").splitlines() if len(line.split()) >= 3]
