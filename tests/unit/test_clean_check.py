"""The check of erased disks, run as a program on files in place of disks: what it finds, reads, skips and prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from farrier.model.node.evidence import Device, DeviceResult

CHECK = Path("farrier/agent/clean-check")
MEBIBYTE = 1 << 20
SMALLEST = 4 * MEBIBYTE  # MAAS lists no disks that are as small


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """The line that the check prints."""

    format: int
    seed: str
    uptime: float
    gpus: int
    devices: tuple[Device, ...]


class Machine:
    """A directory with the files of /dev, /proc, /run and /sys that the check reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/block").mkdir(parents=True)
        self.write("proc/uptime", "61.25 100.0")

    def write(self, path: str, content: str | bytes) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def disk(self, name: str, content: bytes, *, udev: str = "", size: int | None = None, **files: str) -> None:
        """Put in a disk with this content. `files` are files of its directory in /sys; `udev` is its entry in udev."""
        number = str(len(list((self.root / "sys/block").iterdir())))
        self.write(f"sys/block/{name}/size", str((len(content) if size is None else size) // 512))
        self.write(f"sys/block/{name}/dev", f"8:{number}")
        self.write(f"sys/block/{name}/device/model", "stand-in")
        for file, text in files.items():
            self.write(f"sys/block/{name}/{file}", text)
        self.write(f"run/udev/data/b8:{number}", udev)
        self.write(f"dev/{name}", content)

    def check(self) -> tuple[Said, int]:
        """Run the check; what it prints, and its exit code."""
        command = [sys.executable, str(CHECK), "--root", str(self.root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=Said), done.returncode


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def results(said: Said) -> dict[str, DeviceResult]:
    return {device.serial: device.result for device in said.devices}


def test_zero_disks_are_erased_and_a_disk_with_data_is_not(machine: Machine) -> None:
    machine.disk("nvme0n1", bytes(8 * MEBIBYTE), udev="E:ID_SERIAL_SHORT=NV-1\n")
    said, code = machine.check()
    (clean,) = said.devices
    assert (code, clean.result, clean.bad_samples, clean.model) == (0, DeviceResult.ERASED, 0, "stand-in")
    assert (clean.size, said.uptime) == (8 * MEBIBYTE, 61.25)
    machine.disk("sda", bytes(5 * MEBIBYTE) + b"tenant" + bytes(3 * MEBIBYTE - 6), udev="E:ID_SERIAL_SHORT=SSD-1\n")
    said, code = machine.check()
    assert (code, results(said)) == (1, {"NV-1": DeviceResult.ERASED, "SSD-1": DeviceResult.FAILED})
    assert said.devices[1].bad_samples > 0
    assert said.devices[1].message.startswith("data at byte ")


@pytest.mark.parametrize("place", [0, 6 * MEBIBYTE, 32 * MEBIBYTE - 1])
def test_a_rest_of_two_thousandths_is_seen_wherever_it_is(machine: Machine, place: int) -> None:
    content = bytearray(32 * MEBIBYTE)
    rest = 2 * len(content) // 1000
    content[place : place + rest] = b"x" * len(content[place : place + rest])
    machine.disk("sda", bytes(content))
    said, code = machine.check()
    assert (code, said.devices[0].result) == (1, DeviceResult.FAILED)


# As MAAS leaves a disk after a quick erase, and an NVMe disk of 3.84 TB after a full one: it calls `nvme write-zeroes
# -c 1bf1f72af` (metadataserver/builtin_scripts/release_scripts/maas_wipe.py:491), and nvme reads this as 1: two blocks.
@pytest.mark.parametrize(("start", "end"), [(2 * MEBIBYTE, 2 * MEBIBYTE), (1024, 0)])
def test_a_disk_erased_only_at_its_ends_is_not_erased(machine: Machine, start: int, end: int) -> None:
    machine.disk("nvme0n1", bytes(start) + b"d" * (32 * MEBIBYTE - start - end) + bytes(end))
    said, code = machine.check()
    assert (code, said.devices[0].result) == (1, DeviceResult.FAILED)
    assert said.devices[0].bad_samples > said.devices[0].samples * 0.8


def test_a_disk_that_cannot_be_read_to_its_end_is_not_erased(machine: Machine) -> None:
    machine.disk("sda", bytes(8 * MEBIBYTE), size=16 * MEBIBYTE)
    machine.disk("sdb", bytes(8 * MEBIBYTE))
    (machine.root / "dev/sdb").unlink()
    said, code = machine.check()
    assert (code, [device.result for device in said.devices]) == (1, [DeviceResult.FAILED] * 2)
    assert "bytes can be read at byte" in said.devices[0].message
    assert "No such file" in said.devices[1].message


@pytest.mark.parametrize(
    ("udev", "serial"),
    [
        ("E:ID_SERIAL=a\nE:ID_SERIAL_SHORT=b\nE:ID_SCSI_SERIAL=c\nE:SCSI_IDENT_SERIAL=d\n", "d"),
        ("E:ID_SERIAL=a\nE:ID_SERIAL_SHORT=b\nE:ID_SCSI_SERIAL=c\n", "c"),
        ("E:ID_SERIAL=a\nE:ID_SERIAL_SHORT=b\n", "b"),
        ("S:x\nE:ID_SERIAL=a=b\nE:broken\n", "a=b"),
        ("", "/dev/sda"),
    ],
)
def test_a_serial_number_is_the_one_that_maas_knows(machine: Machine, udev: str, serial: str) -> None:
    machine.disk("sda", bytes(8 * MEBIBYTE), udev=udev)
    assert list(results(machine.check()[0])) == [serial]


def test_disks_that_maas_does_not_list_are_left_out(machine: Machine) -> None:
    machine.disk("sda", b"x" * (8 * MEBIBYTE), ro="1")
    machine.disk("sr0", b"x" * (8 * MEBIBYTE))
    machine.disk("sdb", b"x" * SMALLEST)
    machine.disk("sdc", b"")
    machine.disk("nvme0c0n1", b"x" * (8 * MEBIBYTE), hidden="1")
    machine.write("sys/block/loop0/size", "16384")
    said, code = machine.check()
    assert (said.devices, code) == ((), 0)


def test_the_paths_of_one_disk_are_read_once_and_two_disks_of_one_serial_number_both(machine: Machine) -> None:
    same = "E:ID_SERIAL_SHORT=one\n"
    machine.disk("sda", bytes(8 * MEBIBYTE), wwid="naa.1", udev=same)
    machine.disk("sdb", bytes(8 * MEBIBYTE), wwid="naa.1", udev=same)
    assert len(machine.check()[0].devices) == 1
    machine.disk("sdc", bytes(8 * MEBIBYTE), wwid="naa.2", udev=same)
    machine.disk("sdd", bytes(8 * MEBIBYTE), wwid="naa.1", udev="E:ID_SERIAL_SHORT=other\n")
    assert [device.serial for device in machine.check()[0].devices] == ["one", "one", "other"]


def test_nvidia_s_gpus_are_counted(machine: Machine) -> None:
    for place, vendor, kind in (("1", "0x10de", "0x030200"), ("2", "0x10de", "0x040300"), ("3", "0x8086", "0x030000")):
        machine.write(f"sys/bus/pci/devices/0000:0{place}:00.0/vendor", vendor)
        machine.write(f"sys/bus/pci/devices/0000:0{place}:00.0/class", kind)
    assert machine.check()[0].gpus == 1


def test_the_check_changes_nothing_and_draws_other_places_each_time(machine: Machine) -> None:
    machine.disk("sda", bytes(8 * MEBIBYTE))
    before = {path: path.stat().st_mtime_ns for path in machine.root.rglob("*")}
    first, second = machine.check()[0], machine.check()[0]
    assert {path: path.stat().st_mtime_ns for path in machine.root.rglob("*")} == before
    assert first.seed != second.seed
