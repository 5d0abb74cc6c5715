"""The hardware of a simulated machine, as an agent reports it: facts about devices, and the evidence of their erasure.

The facts and the evidence have the form of those of the real agent (`agent/`). The serial numbers of the devices follow
from that of the machine, so the same machine always has the same devices. The disks of a machine in a simulated region
are those that this region finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from farrier.model.node.snapshot import TaskType
from farrier.sim.maas.hardware import DiskModel

_CPUS = 2
_GPUS = 8
_DISKS = 2
_DISK_BYTES = 1_920_383_410_176  # a usual size of an NVMe disk for a server
_SAMPLES = 64  # places of a disk that a simulated erasure reads back
# What the tasks that clean do to the devices of each kind.
_METHODS: Mapping[str, Mapping[str, str]] = {
    TaskType.CLEANUP_STORAGE: {"disk": "nvme format"},
    TaskType.SCRUB_GPU: {"gpu": "overwritten"},
    TaskType.VALIDATE_CLEAN: {"disk": "read", "gpu": "read"},
}


def serial_of(mac: str) -> str:
    """Return the serial number of the machine with this MAC address."""
    return f"SIM{mac.replace(':', '').upper()}"


def facts_of(machine: str, disks: Sequence[DiskModel] = ()) -> dict[str, Any]:
    """Return the facts that the agent of the machine with this serial number reports. Without `disks`, the machine has
    some of its own."""
    disks = disks or [_disk(f"{machine}-disk{index}") for index in range(_DISKS)]
    return {
        "os": "simulated",
        "agent": "simulated",
        "serial": machine,
        "board_serial": f"{machine}-board",
        "cpus": [{"slot": str(slot), "serial": f"0x{_digits(f'{machine}-cpu{slot}')}"} for slot in range(_CPUS)],
        "driver": "580.95.05",
        "gpus": [_gpu(machine, index) for index in range(_GPUS)],
        "disks": [{"serial": disk.serial, "model": disk.model, "size": disk.size, "firmware": "1.0"} for disk in disks],
    }


def evidence_of(facts: Mapping[str, Any], task: str) -> dict[str, Any] | None:
    """Return the evidence of a task that erases or checks devices of a machine with these facts, or None for another
    task."""
    kinds = _METHODS.get(task)
    if kinds is None:
        return None
    devices = [_erased(kind, each["serial"], how) for kind, how in kinds.items() for each in facts.get(f"{kind}s", ())]
    return {"by": "agent", "devices": devices}


def _disk(serial: str) -> DiskModel:
    path = f"/dev/disk/by-id/nvme-{serial}"
    return DiskModel(name="", model="Simulated NVMe", serial=serial, id_path=path, size=_DISK_BYTES)


def _digits(name: str) -> str:
    """Return digits that follow from a name, as many as the inventory number of a CPU has."""
    return uuid5(NAMESPACE_DNS, f"{name}.sim.farrier.invalid").hex[:16]


def _gpu(machine: str, index: int) -> dict[str, Any]:
    name = f"{machine}-gpu{index}"
    return {
        "slot": f"0000:{0x10 + index:02x}:00.0",
        "uuid": f"GPU-{uuid5(NAMESPACE_DNS, f'{name}.sim.farrier.invalid')}",
        "serial": name,
        "model": "Simulated GPU",
        "firmware": "96.00.01",
    }


def _erased(kind: str, serial: str, method: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "serial": serial,
        "method": method,
        "result": "erased",
        "samples": _SAMPLES,
        "bad_samples": 0,
        "seconds": 1.0,
    }
