"""What evidence proves about the devices that a machine should have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.model.node.evidence import (
    By,
    Contradicted,
    Device,
    DeviceKind,
    DeviceResult,
    Evidence,
    ExpectedDevices,
    Part,
    PowerCycle,
    Proven,
    RanScript,
    UnprovenCleaning,
    judge,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
DISKS = ExpectedDevices(disks=(Part(serial="S1", size=1000), Part(serial="S2")))
COLD = PowerCycle(off_seen_at=AT, on_seen_at=AT + timedelta(seconds=20))
EVERY = tuple(DeviceKind)


def disk(serial: str, **fields: Any) -> Device:
    return Device(**{"kind": DeviceKind.DISK, "serial": serial, "result": DeviceResult.ERASED, **fields})


def gpu(serial: str, **fields: Any) -> Device:
    return disk(serial, kind=DeviceKind.GPU, **fields)


def told(*devices: Device, by: By = By.AGENT, **fields: Any) -> Evidence:
    return Evidence(by=by, devices=devices, **fields)


def test_every_expected_disk_that_is_erased_is_proven() -> None:
    evidence = told(disk("s1 ", samples=8, size=1000), disk("S2"))
    assert judge(evidence, DISKS, [DeviceKind.DISK]) == Proven(By.AGENT)


def test_a_machine_without_disks_has_nothing_to_erase() -> None:
    assert judge(told(), ExpectedDevices(disks=()), [DeviceKind.DISK]) == Proven(By.AGENT)


@pytest.mark.parametrize(
    ("evidence", "expected", "why"),
    [
        (None, DISKS, "the result has no evidence"),
        (told(disk("S1"), disk("S2")), ExpectedDevices(), "disk: nothing says which the machine should have"),
        (told(disk("S1")), DISKS, "disk S2 is not in the evidence"),
        (told(), DISKS, "disk S1 is not in the evidence; disk S2 is not in the evidence"),
        (told(disk("S1"), disk("S2"), disk("S3")), DISKS, "disk S3 is not known as a part of the machine"),
        (told(disk("S1", size=999), disk("S2")), DISKS, "disk S1 has 999 bytes instead of 1000"),
        (
            told(disk("S1", result=DeviceResult.UNPROVEN, message="the system runs from it"), disk("S2")),
            DISKS,
            "disk S1 is unproven (the system runs from it)",
        ),
        (told(gpu("S1"), gpu("S2")), DISKS, "disk S1 is not in the evidence; disk S2 is not in the evidence"),
    ],
)
def test_incomplete_evidence_is_unproven(evidence: Evidence | None, expected: ExpectedDevices, why: str) -> None:
    assert judge(evidence, expected, [DeviceKind.DISK]) == UnprovenCleaning(why)


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (disk("S2", result=DeviceResult.FAILED, message="busy"), "disk S2 is failed (busy)"),
        (disk("S2", result=DeviceResult.MISSING), "disk S2 is missing"),
        (disk("S9", result=DeviceResult.UNEXPECTED), "disk S9 is unexpected"),
        (disk("S2", samples=9, bad_samples=2), "disk S2 is erased (2 of 9 samples are not erased)"),
    ],
)
def test_evidence_of_a_failure_contradicts_success(device: Device, why: str) -> None:
    assert judge(told(disk("S1"), device), DISKS, [DeviceKind.DISK]) == Contradicted(why)
    assert judge(told(disk("S1"), device), ExpectedDevices(), []) == Contradicted(why)


def test_only_a_cold_start_that_the_region_saw_proves_memory() -> None:
    memory = [DeviceKind.GPU, DeviceKind.HOST_MEMORY]
    assert judge(told(by=By.REGION, power_cycle=COLD), ExpectedDevices(), memory) == Proven(By.REGION)
    for doubtful in (told(by=By.REGION), told(power_cycle=COLD)):
        verdict = judge(doubtful, ExpectedDevices(gpus=()), EVERY)
        assert isinstance(verdict, UnprovenCleaning) and "host_memory: no cold start" in verdict.why


def test_gpus_that_the_agent_overwrote_are_compared_with_its_facts() -> None:
    expected = ExpectedDevices(gpus=(Part(serial="G1"), Part(serial="G2")))
    assert judge(told(gpu("G1"), gpu("G2")), expected, [DeviceKind.GPU]) == Proven(By.AGENT)
    assert judge(told(gpu("G1")), expected, [DeviceKind.GPU]) == UnprovenCleaning("gpu G2 is not in the evidence")


def test_evidence_keeps_the_revision_of_the_script_and_the_times_of_the_cold_start() -> None:
    script = RanScript(name="farrier-clean-check", revision=7, sha256="0" * 64)
    kept = msgspec.json.decode(
        msgspec.json.encode(told(by=By.REGION, script=script, power_cycle=COLD)), type=Evidence, strict=True
    )
    assert kept.script is not None and kept.script.revision == 7
    assert kept.power_cycle is not None and kept.power_cycle.on_seen_at > kept.power_cycle.off_seen_at
