"""The region's check of a released machine: makes evidence of its output for the stages that judge this evidence. Pure.

The check compares the disks that it found with those that MAAS knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from farrier.config.sites import Erase
from farrier.handlers.node.changes import Done, Failed, StageStep, at_stage, own
from farrier.handlers.node.decommission.progress import pointless
from farrier.model.maas.reading import BlockDevice, Machine
from farrier.model.maas.scripts import ScriptResult, TestRun
from farrier.model.node.evidence import (
    By,
    Device,
    DeviceKind,
    DeviceResult,
    Evidence,
    ExpectedDevices,
    Part,
    PowerCycle,
    RanScript,
)
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Node, StopRequest
from farrier.model.node.stages import DecommissionStage

FORMAT = 1
"""The format of the output that this release reads."""

_MOST_BYTES = 1024 * 1024  # a line about a thousand disks has 250 kB
_METHOD = {Erase.SECURE: "secure erasure, or zeros", Erase.FULL: "zeros"}


class _CheckOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The line that the check prints."""

    format: int
    devices: tuple[Device, ...]


def by_region(node: Node) -> bool:
    """Return whether the region cleans this machine. A machine that still runs its agent was not released."""
    return own(node).options.cleaned_by is CleaningBy.REGION and pointless(node) is not None


def unchecked(node: Node) -> Done:
    """Return a finished stage if stage `cleanup_storage` did not check the machine, with the reason of that stage."""
    stage = DecommissionStage.CLEANUP_STORAGE
    why = next((each.why for each in own(node).skipped if each.stage == stage), "the machine was not checked")
    return Done(reason=why, skipped=why)


def again(node: Node) -> StageStep | None:
    """Go back to the check in a further attempt of a stage that only judges its evidence."""
    if node.live.status_entered_at <= node.live.stage_entered_at:
        return None
    return StageStep(to=at_stage(node, DecommissionStage.CLEANUP_STORAGE), reason="the machine is checked again")


def unclean(why: str) -> Failed:
    """Fail for good, because another check would find the same."""
    return Failed(failure=FailureClass.VALIDATION_FAILED, detail=why, stop=StopRequest.FAILED)


def reported(
    run: TestRun, result: ScriptResult, machine: Machine, *, erase: Erase, power_cycle: PowerCycle | None
) -> Evidence | str:
    """Return the evidence of the check, or what is wrong with its output."""
    output = _read(result.output or b"")
    if isinstance(output, str):
        return output
    disks = sorted(
        (disk for disk in machine.blockdevice_set if disk.type in {None, "physical"}), key=lambda disk: disk.size or 0
    )
    known = dict(zip(_numbered(map(_key, disks)), disks, strict=True))
    seen = sorted(output.devices, key=lambda device: device.size)
    serials = _numbered(device.serial.strip() for device in seen)
    found = [
        _compared(replace(device, serial=serial), known, erase) for serial, device in zip(serials, seen, strict=True)
    ]
    there = {device.serial for device in found}
    missing = [_missing(serial, disk) for serial, disk in known.items() if serial not in there]
    try:
        return Evidence(
            by=By.REGION,
            devices=(*found, *missing),
            script=RanScript(name=run.script, revision=run.revision, sha256=run.sha256),
            power_cycle=power_cycle,
        )
    except ValueError as error:
        return str(error)


def expected_of(evidence: Evidence) -> ExpectedDevices:
    """Return the disks that MAAS knows, as the evidence shows them."""
    known = (
        device
        for device in evidence.devices
        if device.kind is DeviceKind.DISK and device.result is not DeviceResult.UNEXPECTED
    )
    return ExpectedDevices(disks=tuple(Part(serial=device.serial, size=device.size) for device in known))


def _read(output: bytes) -> _CheckOutput | str:
    lines = output[-_MOST_BYTES:].strip().splitlines()
    try:
        found = msgspec.json.decode(lines[-1] if lines else b"", type=_CheckOutput)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"its last line is not the JSON that the check prints: {error}"
    if found.format != FORMAT:
        return f"its output has format {found.format}; expected {FORMAT}"
    return found


def _compared(device: Device, known: dict[str, BlockDevice], erase: Erase) -> Device:
    """Return the device as farrier judges it. farrier does not trust the script's own word of the result."""
    device = replace(device, method=f"{_METHOD.get(erase, erase)}; samples read back")
    disk = known.get(device.serial)
    if disk is None:
        return replace(device, result=DeviceResult.UNEXPECTED, message="MAAS does not know this disk")
    if disk.size and device.size and disk.size != device.size:
        message = f"it has {device.size} bytes, but {disk.size} in MAAS"
        return replace(device, result=DeviceResult.FAILED, message=message)
    if not device.samples or device.bad_samples or device.message:
        return replace(device, result=DeviceResult.FAILED)
    return device


def _missing(serial: str, disk: BlockDevice) -> Device:
    return Device(
        kind=DeviceKind.DISK,
        serial=serial,
        result=DeviceResult.MISSING,
        model=(disk.model or "")[:200],
        size=disk.size or 0,
        message="the check did not find this disk, which MAAS knows",
    )


def _numbered(serials: Iterable[str]) -> list[str]:
    """Number the second and later disks with one serial number. The namespaces of one NVMe disk share a serial number,
    in MAAS and in the output of the check; their sizes tell which is which."""
    counted: Counter[str] = Counter()
    names = []
    for serial in serials:
        counted[serial] += 1
        names.append(serial if counted[serial] == 1 else f"{serial} ({counted[serial]})")
    return names


def _key(disk: BlockDevice) -> str:
    """Return the serial number; for a disk without one, such as a virtual disk, its path, as the check does."""
    return (disk.serial or "").strip() or disk.id_path or str(disk.id)
