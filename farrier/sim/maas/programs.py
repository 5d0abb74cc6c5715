"""What a script does on a simulated machine. farrier's own check sees the disks as the real script sees them.

A test sets other programs in the `Nature` of a machine. The output of farrier's check has the form that
`farrier/agent/clean-check` prints.
"""

from __future__ import annotations

import msgspec

from farrier.agent import CLEAN_CHECK
from farrier.sim.maas.hardware import DiskModel, Nature, Printed
from farrier.sim.maas.records import Machine, Remains

_SAMPLES = 1000


def run(machine: Machine, nature: Nature, script: str) -> Printed:
    """Run the script with this name."""
    program = nature.programs.get(script)
    if program is not None:
        return program()
    return clean_check(machine, nature) if script == CLEAN_CHECK else Printed()


def clean_check(machine: Machine, nature: Nature) -> Printed:
    """Return what farrier's check of erased disks prints on this machine."""
    devices = [_checked(disk, machine.data.get(disk.serial)) for disk in nature.hardware.disks]
    said = {"format": 1, "seed": "0", "uptime": 60.0, "gpus": 0, "devices": devices}
    is_erased = all(device["result"] == "erased" for device in devices)
    return Printed(b"Checks the disks.\n" + msgspec.json.encode(said) + b"\n", 0 if is_erased else 1)


def _checked(disk: DiskModel, remains: Remains | None) -> dict[str, object]:
    bad = {None: 0, Remains.BETWEEN_THE_ENDS: _SAMPLES - 2, Remains.EVERYWHERE: _SAMPLES}[remains]
    found = {"kind": "disk", "serial": disk.serial, "model": disk.model, "size": disk.size, "method": "zero-samples"}
    message = {"message": "data at byte 4194304"} if bad else {}
    result = "failed" if bad else "erased"
    return {**found, "samples": _SAMPLES, "bad_samples": bad, **message, "result": result, "seconds": 1.0}
