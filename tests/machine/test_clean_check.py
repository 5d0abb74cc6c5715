"""The check of erased disks on a real machine: disks that were erased, that were not, that lie, and that are missing.

The machine boots a system that leaves no traces, as for a test of a region. There, disks are overwritten with zeros, as
MAAS does it, and then the check runs. It has to see past what the kernel remembers of its writes.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest

from farrier.model.node.evidence import (
    By,
    Contradicted,
    Device,
    DeviceKind,
    Evidence,
    ExpectedDevices,
    Part,
    Proven,
    UnprovenCleaning,
    judge,
)
from tests.support.machine import qemu
from tests.support.machine.image import Image
from tests.support.machine.qemu import Disk

CHECK = Path("farrier/agent/clean-check")
SIZE_BYTES = 32 << 20
DATA = b"a tenant's data"
# The initial RAM disk leaves /dev, /proc, /sys and /run mounted.
SCRIPT = """\
/lib/systemd/systemd-udevd --daemon
modprobe nvme
udevadm trigger --action=add --subsystem-match=block
udevadm settle
for disk in {erased}; do
    dd if=/dev/zero of="$(readlink -f /dev/disk/by-id/nvme-*_"$disk")" bs=1M count=32 conv=fsync status=none
done
cat >/run/check <<'END-OF-CHECK'
{check}
END-OF-CHECK
python3 /run/check
echo "exit code $?"
poweroff -f
"""


class Said(msgspec.Struct):
    """What the check prints."""

    devices: tuple[Device, ...]

    def of(self, *disks: Disk) -> Evidence:
        """The evidence about these disks alone."""
        wanted = {disk.serial for disk in disks}
        return Evidence(by=By.REGION, devices=tuple(each for each in self.devices if each.serial in wanted))


def disk(directory: Path, serial: str, *, honest: bool = True) -> Disk:
    """A disk with a tenant's data in the middle."""
    file = directory / serial
    file.write_bytes((bytes(SIZE_BYTES // 2) + DATA * 5000).ljust(SIZE_BYTES, b"\0"))
    return Disk(serial=serial, file=file, honest=honest)


def boot(directory: Path, image: Image, *disks: Disk, erased: tuple[Disk, ...]) -> tuple[Said, str]:
    """Run the check on a machine with these disks, and return what it prints and its exit code."""
    script = directory / "script"
    names = " ".join(disk.serial for disk in erased)
    text = SCRIPT.format(erased=names, check=CHECK.read_text())
    script.write_bytes(text.encode().ljust(64 << 10, b"\n"))
    done = subprocess.run(
        qemu.ephemeral(image, script, disks), capture_output=True, text=True, timeout=600, check=False
    )
    lines = done.stdout.splitlines()
    said = [line for line in lines if line.startswith('{"format": 1,')]
    assert len(said) == 1, done.stdout + done.stderr
    return msgspec.json.decode(said[0], type=Said), next(line for line in lines if line.startswith("exit code"))


@pytest.mark.timeout(900)
def test_the_check_proves_only_the_disk_that_is_there_and_really_erased(image: Image) -> None:
    with tempfile.TemporaryDirectory(prefix="farrier-check-") as name:
        directory = Path(name)
        honest, liar = disk(directory, "NV-1"), disk(directory, "NV-2", honest=False)
        forgotten, missing = disk(directory, "NV-3"), disk(directory, "NV-4")
        said, code = boot(directory, image, honest, liar, forgotten, erased=(honest, liar))

        def verdict(disk: Disk) -> type:
            expected = ExpectedDevices(disks=(Part(serial=disk.serial, size=SIZE_BYTES),))
            return type(judge(said.of(disk), expected, [DeviceKind.DISK]))

        verdicts = {disk.serial: verdict(disk) for disk in (honest, liar, forgotten, missing)}
        assert not any(honest.file.read_bytes())
        assert DATA in liar.file.read_bytes()
    assert verdicts == {"NV-1": Proven, "NV-2": Contradicted, "NV-3": Contradicted, "NV-4": UnprovenCleaning}
    assert code == "exit code 1"
