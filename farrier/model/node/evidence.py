"""Evidence of a cleaning: what was done to each device of a machine, and what was seen afterwards.

An agent or a worker reports evidence with the result of its task (`Reported`); the database refuses malformed evidence
by the same rules (`SCHEMA`, `farrier.evidence_fault`). farrier itself makes the evidence of a check that ran outside
the tenant's system. `judge` compares evidence with the devices that the machine should have. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias, assert_never

import msgspec
from typing_extensions import override

from farrier.model.intents import params
from farrier.model.node.details import CONTROL, FAULT

DEVICES_MAX = 1000
"""Largest number of devices in the evidence of one task. The largest storage servers have about a hundred disks."""

_LONGEST_COUNT = 2**63 - 1  # PostgreSQL's bigint
_MOST_NAMES = 6  # devices in a reason, which lists show in one line
_Text: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=200,
        pattern=rf"\A[^{CONTROL}]*\Z",
        extra={FAULT: "is not usable: expected at most 200 characters without control characters"},
    ),
]
_Serial: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=rf"\A[^{CONTROL}]+\Z",
        extra={FAULT: "is not usable: expected 1 to 200 characters without control characters"},
    ),
]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_COUNT)]


class DeviceKind(StrEnum):
    DISK = "disk"
    GPU = "gpu"
    HOST_MEMORY = "host_memory"


class DeviceResult(StrEnum):
    """What became of a device."""

    ERASED = "erased"
    FAILED = "failed"  # it still has data, or it was not erased because of an error
    UNPROVEN = "unproven"  # it was left out, for example because the system runs from it
    MISSING = "missing"  # it should be there, and is not
    UNEXPECTED = "unexpected"  # it is there, and should not be


class By(StrEnum):
    """Who reports evidence."""

    AGENT = "agent"  # the machine's own system, in which a tenant may have been root
    WORKER = "worker"
    REGION = "region"  # farrier's check of the released machine, outside the tenant's system


class Device(params.Params, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """One device of stored evidence. `method` is how it was erased or checked. Of `samples` places that were read
    afterwards, `bad_samples` were not erased. `size` is in bytes; 0 is an unknown size."""

    kind: DeviceKind
    serial: _Serial
    result: DeviceResult
    method: _Text = ""
    model: _Text = ""
    size: _Count = 0
    samples: _Count = 0
    bad_samples: _Count = 0
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0
    message: Annotated[str, msgspec.Meta(max_length=500)] = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.serial}"

    @property
    def is_erased(self) -> bool:
        return self.result is DeviceResult.ERASED and not self.bad_samples

    @property
    def contradicts(self) -> bool:
        """Whether the device shows that the cleaning failed."""
        return self.bad_samples > 0 or self.result in _CONTRADICTING


_CONTRADICTING = frozenset({DeviceResult.FAILED, DeviceResult.MISSING, DeviceResult.UNEXPECTED})


class ReportedDevice(Device, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One device of reported evidence. A field that farrier does not know may be a typing error."""


class Reported(params.Params, frozen=True, kw_only=True, omit_defaults=True):
    """The evidence that an agent or a worker reports about its own task."""

    by: By
    devices: Annotated[tuple[ReportedDevice, ...], msgspec.Meta(max_length=DEVICES_MAX)]

    @override
    def __post_init__(self) -> None:
        if (twice := repeated(self.devices)) is not None:
            raise ValueError(twice)


class RanScript(msgspec.Struct, frozen=True, kw_only=True):
    """The script that the region ran: its name, the revision in the region, and the SHA-256 digest of its text."""

    name: str
    revision: int
    sha256: str


class PowerCycle(msgspec.Struct, frozen=True, kw_only=True):
    """A cold start of the machine, as its BMC showed it."""

    off_seen_at: datetime
    on_seen_at: datetime


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored evidence of a cleaning. Only the region's evidence has a script and a power cycle."""

    by: By
    devices: tuple[Device, ...]
    script: RanScript | None = None
    power_cycle: PowerCycle | None = None

    def __post_init__(self) -> None:
        if (twice := repeated(self.devices)) is not None:
            raise ValueError(twice)


SCHEMA = params.describe(Reported)
"""The rules of reported evidence as data, for the database."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device that the machine should have."""

    serial: str
    size: int = 0


class ExpectedDevices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The devices that the machine should have; None if no source reports them."""

    disks: tuple[Part, ...] | None = None
    gpus: tuple[Part, ...] | None = None


class Require(StrEnum):
    """Which cleaning a node must have before it returns from `retired` to service."""

    NONE = "none"  # any; a cleaning without evidence is marked as unproven
    EVIDENCE = "evidence"  # a proven one
    OUTSIDE = "outside"  # one that the region proved, outside the tenant's system


def shortfall(require: Require, by: By | None) -> str | None:
    """Return why a cleaning that `by` proved (None: nobody) is less than required, or None."""
    match require:
        case Require.NONE:
            return None
        case Require.EVIDENCE:
            return None if by is not None else "no evidence proves it"
        case Require.OUTSIDE:
            if by is By.REGION:
                return None
            return "no evidence from outside the machine's system proves it" + (f", only the {by}'s" if by else "")
        case _ as never:
            assert_never(never)


class Cleaned(msgspec.Struct, frozen=True, gc=False):
    """A proven cleaning: by whom, and the ID of the decommission."""

    by: By
    workflow: int


class Judged(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the evidence of a cleaning stage proved: by whom, or why it is unproven."""

    stage: str
    by: By | None = None
    why: str | None = None

    @property
    def text(self) -> str:
        return f"{self.stage}: " + (f"proven by the {self.by}" if self.by is not None else f"unproven: {self.why}")


class Proven(msgspec.Struct, frozen=True):
    """Every expected device was erased."""

    by: By


class UnprovenCleaning(msgspec.Struct, frozen=True):
    """The evidence is missing or incomplete."""

    why: str


class Contradicted(msgspec.Struct, frozen=True):
    """The evidence shows that the cleaning failed."""

    why: str


Verdict: TypeAlias = Proven | UnprovenCleaning | Contradicted


def repeated(devices: Iterable[Device]) -> str | None:
    """Return the sentence about devices that occur twice, or None."""
    twice = sorted(name for name, count in Counter(device.name for device in devices).items() if count > 1)
    return f"has two devices of the same kind and serial number: {_listed(twice)}" if twice else None


def judge(evidence: Evidence | None, expected: ExpectedDevices, kinds: Collection[DeviceKind]) -> Verdict:
    """Return what the evidence proves about the devices of these kinds."""
    if evidence is None:
        return UnprovenCleaning("the result has no evidence")
    wrong = [_shown(device) for device in evidence.devices if device.contradicts]
    if wrong:
        return Contradicted(_listed(wrong))
    gaps = [gap for kind in sorted(kinds) if (gap := _gap(evidence, expected, kind)) is not None]
    return UnprovenCleaning("; ".join(gaps)) if gaps else Proven(evidence.by)


def _gap(evidence: Evidence, expected: ExpectedDevices, kind: DeviceKind) -> str | None:
    """Return what the evidence does not prove about the devices of this kind, or None."""
    match kind:
        case DeviceKind.DISK:
            return _against(evidence.devices, kind, expected.disks)
        case DeviceKind.GPU:
            if _was_cold(evidence):
                return None  # a machine without power keeps nothing in the memory of any GPU
            return _against(evidence.devices, kind, expected.gpus)
        case DeviceKind.HOST_MEMORY:
            return None if _was_cold(evidence) else "host_memory: no cold start of the machine was seen"
        case _ as never:
            assert_never(never)


def _was_cold(evidence: Evidence) -> bool:
    return evidence.by is By.REGION and evidence.power_cycle is not None


def _against(devices: Iterable[Device], kind: DeviceKind, parts: tuple[Part, ...] | None) -> str | None:
    """Compare the devices of a kind with the parts that the machine should have."""
    if parts is None:
        return f"{kind}: nothing says which the machine should have"
    found = {_key(device.serial): device for device in devices if device.kind is kind}
    wanted = {_key(part.serial): part for part in parts}
    missing = [f"{kind} {part.serial} is not in the evidence" for key, part in wanted.items() if key not in found]
    unknown = [f"{found[key].name} is not known as a part of the machine" for key in found if key not in wanted]
    left = [_shown(device) for device in found.values() if not device.is_erased]
    sizes = [
        f"{device.name} has {device.size} bytes instead of {wanted[key].size}"
        for key, device in found.items()
        if key in wanted and _differs(device.size, wanted[key].size)
    ]
    gaps = [*missing, *unknown, *left, *sizes]
    return _listed(gaps) if gaps else None


def _differs(one: int, other: int) -> bool:
    return 0 not in (one, other) and one != other


def _key(serial: str) -> str:
    """Return the form of a serial number in which the reports of different tools agree."""
    return "".join(serial.split()).casefold()


def _shown(device: Device) -> str:
    bad = f"{device.bad_samples} of {device.samples} samples are not erased" if device.bad_samples else ""
    said = ", ".join(filter(None, (device.message, bad)))
    return f"{device.name} is {device.result}" + (f" ({said})" if said else "")


def _listed(texts: list[str]) -> str:
    more = f"; and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return "; ".join(texts[:_MOST_NAMES]) + more
