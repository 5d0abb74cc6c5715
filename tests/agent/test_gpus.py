"""What the agent says about GPUs, with a stand-in for NVML below NVIDIA's own nvidia-ml-py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from farrier_agent import gpu
from farrier_agent.conditions import Condition
from farrier_agent.host import Host
from farrier_agent.xid import Xids
from tests.support.agent_machine import Machine
from tests.support.agents_door import Door

DATA = Path(__file__).parents[1] / "data" / "agent"
SERIAL = "1654023000003"


def test_the_facts_of_gpus_have_slot_uuid_serial_model_and_firmware(gpus: Machine, python: str) -> None:
    gpus.python = python

    collected = gpus.collect()

    assert collected["facts"]["driver"] == "550.163.01"
    assert len(collected["facts"]["gpus"]) == 8
    assert collected["facts"]["gpus"][3] == {
        "slot": "0000:13:00.0",
        "uuid": "GPU-00000000-0000-0000-0000-000000000003",
        "serial": SERIAL,
        "model": "NVIDIA H100 80GB HBM3",
        "firmware": "96.00.89.00.01",
    }
    assert not [each for each in collected["conditions"] if each["id"].startswith("gpu/")]


@pytest.mark.parametrize(
    ("environment", "id_", "effect", "said"),
    [
        ({"NVML_ECC": "2"}, "gpu/ecc", "quarantine", "2 uncorrectable memory errors"),
        ({"NVML_PENDING": "1"}, "gpu/remap-pending", "note", "when the GPU is reset"),
        ({"NVML_PENDING": "1", "NVML_FAILED": "1"}, "gpu/remap-failed", "quarantine", "replace the GPU"),
        ({"NVML_REASONS": "64"}, "gpu/thermal-brake", "note", "reduces the GPU's clocks: thermal"),
        ({"NVML_REASONS": "128"}, "gpu/power-brake", "note", "reduces the GPU's clocks: power"),
        ({"NVML_LINKS_DOWN": "1"}, "gpu/nvlink", "quarantine", "17 NVLinks are up, 18 on other GPUs"),
        ({"NVML_FABRIC": "1"}, "gpu/fabric", "quarantine", "not registered with the fabric manager: not started"),
        (
            {"NVML_FABRIC_STATUS": "999"},
            "gpu/fabric",
            "quarantine",
            "not registered with the fabric manager: Unknown Error",
        ),
    ],
)
def test_a_fault_of_one_gpu_is_a_condition_with_its_serial_number(
    gpus: Machine, environment: dict[str, str], id_: str, effect: str, said: str
) -> None:
    gpus.environment |= {"NVML_AT": "3", **environment}

    found = gpus.conditions()

    assert {each for each in found if each.startswith("gpu/")} == {id_}
    assert (found[id_]["target"], found[id_]["effect"]) == (SERIAL, effect)
    assert said in found[id_]["message"]


def test_a_fabric_that_starts_after_the_machine_is_only_noted(gpus: Machine) -> None:
    gpus.environment["NVML_FABRIC"] = "2"
    gpus.write("/proc/uptime", "42.0 1.0")

    assert gpus.conditions()["gpu/fabric"]["effect"] == "note"


def test_a_lost_gpu_is_reported_and_the_others_stay_readable(gpus: Machine) -> None:
    gpus.environment["NVML_LOST"] = "5"

    collected = gpus.collect()

    (lost,) = [each for each in collected["conditions"] if each["id"] == "gpu/lost"]
    assert lost["target"] == "0000:15:00.0"
    assert lost["message"] == "NVML does not reach 0000:15:00.0: GPU 5: GPU is lost"
    assert len(collected["facts"]["gpus"]) == 7


def test_a_gpu_that_is_missing_on_the_bus_is_counted(gpus: Machine) -> None:
    gpus.configure("https://agents.example:9466", gpus=9)

    assert gpus.conditions()["gpu/count"]["message"] == "8 GPUs are on the PCI bus, expected 9"


def test_only_nvidias_display_controllers_are_gpus(machine: Machine) -> None:
    for pci, vendor, kind in (
        ("0000:10:00.0", "0x10de", "0x030200"),  # a GPU without display
        ("0000:11:00.0", "0x10de", "0x030000"),  # a GPU with display
        ("0000:11:00.1", "0x10de", "0x040300"),  # its audio function
        ("0000:12:00.0", "0x10de", "0x068000"),  # an NVSwitch
        ("0000:13:00.0", "0x1a03", "0x030000"),  # the display of the BMC
    ):
        machine.write(f"/sys/bus/pci/devices/{pci}/vendor", vendor)
        machine.write(f"/sys/bus/pci/devices/{pci}/class", kind)

    assert gpu.present(Host(str(machine.root))) == ["0000:10:00.0", "0000:11:00.0"]


def test_a_gpu_that_nvml_does_not_list_is_lost(gpus: Machine) -> None:
    gpus.environment["NVML_GPUS"] = "7"

    assert gpus.conditions()["gpu/lost"]["target"] == "0000:17:00.0"


def test_a_driver_that_is_not_loaded_is_a_condition(gpus: Machine) -> None:
    gpus.environment["NVML_INIT"] = "9"

    said = gpus.conditions()["gpu/driver"]

    assert said["message"] == "8 GPUs are on the PCI bus, but NVML does not start: Driver Not Loaded"


def test_a_missing_library_is_a_condition(gpus: Machine) -> None:
    del gpus.environment["LD_LIBRARY_PATH"]

    assert "NVML Shared Library Not Found" in gpus.conditions()["gpu/driver"]["message"]


def test_calls_that_the_driver_does_not_have_are_left_out(gpus: Machine, libraries: Path) -> None:
    gpus.environment |= {"LD_LIBRARY_PATH": str(libraries / "old"), "NVML_ECC": "2", "NVML_REASONS": "64"}

    found = gpus.conditions()

    assert {each for each in found if each.startswith("gpu/")} == {"gpu/thermal-brake"}


def test_a_machine_without_gpus_needs_no_driver(machine: Machine) -> None:
    assert machine.collect()["facts"]["gpus"] == []


def test_a_call_of_nvml_that_hangs_is_said_and_delays_nothing_else(
    gpus: Machine, door: Door, start: Callable[[Machine], subprocess.Popen[str]]
) -> None:
    gpus.environment["NVML_HANGS"] = "1"
    gpus.configure(door.url, timeouts={"gpu": 1})

    start(gpus)

    beat = door.wait("heartbeat", lambda call: any(each["id"] == "agent/gpu" for each in call.body["conditions"]))
    (hung,) = [each for each in beat.body["conditions"] if each["id"] == "agent/gpu"]
    assert (hung["effect"], hung["message"]) == ("quarantine", "gpu: did not answer within 1 s")
    assert door.wait("facts").body["facts"]["kernel"]


UNKILLABLE = """
import os, subprocess, sys, time
from farrier_agent.host import Config, Host
from farrier_agent.loop import Collector, Readings

def read(host, config):
    # A process that the kill does not reach and that keeps the pipe, as one in state D.
    null = subprocess.DEVNULL
    subprocess.Popen(["sleep", "20"], start_new_session=True, close_fds=False, stdout=null, stderr=null)
    with open(sys.argv[1], "a") as log:
        log.write("x")
    time.sleep(60)

readings = Readings(Host(sys.argv[2]), Config(), [Collector("disk", read, 0.1, 0.2)])
ends_at = time.monotonic() + 3
while time.monotonic() < ends_at:
    readings.step(time.monotonic())
    readings.wait(time.monotonic() + 0.1)
print(readings.conditions()[-1]["message"])
"""


def test_a_process_that_cannot_be_killed_is_said_and_not_started_twice(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", UNKILLABLE, str(log), str(machine.root)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "agent")},
    )

    assert log.read_text() == "x"
    assert done.stdout.strip() == "disk: did not answer within 0 s; its process cannot be ended"


RECORDED = json.loads((DATA / "xids.json").read_text())


def xids(machine: Machine, log: str) -> list[Condition]:
    """The conditions of a machine with this kernel's log."""
    machine.write("/dev/kmsg", log)
    read = Xids(Host(str(machine.root)))
    read.read()
    return read.conditions({"0000:13:00.0": SERIAL})


@pytest.mark.parametrize("recorded", RECORDED["records"], ids=lambda each: str(each["xid"]))
def test_xids_are_classified_as_nvidias_catalog_says(machine: Machine, recorded: dict[str, str]) -> None:
    found = xids(machine, f"4,1234,98765432,-;{recorded['record']}\n")

    expected = [(f"gpu/xid-{recorded['xid']}", recorded["effect"])] if recorded["effect"] else []
    assert [(each["id"], each["effect"]) for each in found] == expected


def test_an_xid_has_the_serial_number_of_its_gpu(machine: Machine) -> None:
    (said,) = xids(machine, "4,1,1,-;NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', GPU has fallen off the bus.\n")

    assert said["target"] == SERIAL
    assert said["message"] == "XID 79 of GPU 0000:13:00: pid='<unknown>', GPU has fallen off the bus."


def test_a_gpu_that_needs_no_action_any_more_has_no_condition(machine: Machine) -> None:
    changed = "4,1,1,-;NVRM: Xid (PCI:0000:13:00): 154, GPU recovery action changed from {} to {}\n"
    needs, none = "0x1 (GPU Reset Required)", "0x0 (None)"

    assert [each["effect"] for each in xids(machine, changed.format(none, needs))] == ["quarantine"]
    assert xids(machine, changed.format(none, needs) + changed.format(needs, none)) == []


def test_a_flood_of_xids_is_bounded_and_said(machine: Machine) -> None:
    lines = (f"4,{n},1,-;NVRM: Xid (PCI:0000:{n % 200:02x}:00): 31, pid=1, MMU Fault\n" for n in range(20_000))

    found = xids(machine, "".join(lines))

    assert len([each for each in found if each["id"] == "gpu/xid-31"]) == 64
    assert found[-1]["message"] == "a part of the kernel's log was not read; XIDs may be missing"


def test_a_log_that_cannot_be_read_is_said(machine: Machine) -> None:
    machine.path("/dev/kmsg").unlink()

    (said,) = Xids(Host(str(machine.root))).conditions({})

    assert (said["id"], said["effect"]) == ("gpu/xid-unread", "note")


def test_a_flood_of_notes_hides_no_xid_that_ends_the_service(machine: Machine) -> None:
    notes = (f"4,{n},1,-;NVRM: Xid (PCI:0000:{n:02x}:00): 31, pid=1, MMU Fault\n" for n in range(200))

    found = xids(machine, "".join(notes) + "4,1,1,-;NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.\n")

    assert ("gpu/xid-79", "quarantine") in {(each["id"], each["effect"]) for each in found}
