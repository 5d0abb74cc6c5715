"""The commands that start the machine in QEMU.

The machine has a system disk and NVMe disks of data. Its network reaches nothing but a few ports of this computer's
loopback. The firmware tables show the serial number and the UUID that the BMC shows. QEMU emulates the processor: with
KVM, the kernel hangs on some of the computers that run the tests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.support import programs
from tests.support.machine.image import Image

HOST = "10.0.2.100"
"""This computer, as the machine sees it."""
# The processor that boots fastest: a newer one has more features to probe. One core and 512 MB suffice.
PROCESSOR = ("-accel", "tcg,thread=multi,tb-size=256", "-M", "q35", "-cpu", "Nehalem", "-smp", "1", "-m", "512")
# On a busy computer, the emulated timer is so late that Linux would refuse to start.
CONSOLE = "console=ttyS0 panic=-1 no_timer_check"
KERNEL = f"root=/dev/vda rw {CONSOLE} loglevel=5 systemd.show_status=no systemd.log_level=notice"


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """An NVMe disk of the machine, whose data are in a file."""

    serial: str
    file: Path
    honest: bool = True
    """Whether the disk stores what it is told to. Otherwise it reports success, and keeps the data that it has."""

    @property
    def drive(self) -> str:
        """What QEMU opens as the disk."""
        stored = {"driver": "file", "filename": os.fspath(self.file)}
        if self.honest:
            return _json(stored)
        # Each write goes to two places. It fails at the file, succeeds at the other, and one success is enough. The
        # file is read first.
        failing = [{"event": "none", "iotype": iotype} for iotype in ("write", "write-zeroes", "discard")]
        nowhere = {"driver": "null-co", "size": self.file.stat().st_size}
        return _json(
            {
                "driver": "quorum",
                "read-pattern": "fifo",
                "vote-threshold": 1,
                "children": [{"driver": "blkdebug", "image": stored, "inject-error": failing}, nowhere],
            }
        )


def _json(block: Mapping[str, object]) -> str:
    # A comma ends an option.
    return "json:" + msgspec.json.encode(block).decode().replace(",", ",,")


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine is made of."""

    serial: str
    uuid: str
    mac: str
    system: Path
    disks: tuple[Disk, ...] = ()


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The socket to which the machine's serial console connects, and the ports of this computer that the machine
    reaches: of the data for cloud-init, and of the server for agents."""

    console: Path
    seed: int
    agents: int


def _data(disks: Sequence[Disk]) -> list[str]:
    """The options that put disks of data into the machine."""
    return [
        option
        for number, disk in enumerate(disks)
        for option in (
            *("-drive", f"file={disk.drive},if=none,id=data{number},cache=unsafe"),
            *("-device", f"nvme,drive=data{number},serial={disk.serial}"),
        )
    ]


def ephemeral(image: Image, script: Path, disks: Sequence[Disk]) -> list[str]:
    """The command that boots a machine with these disks, as a region boots a machine for a test: a system that leaves
    no traces runs this script of the shell, which ends by switching the machine off. The machine has no network."""
    return [
        programs.program("qemu-system-x86_64"),
        *PROCESSOR,
        *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-kernel", os.fspath(image.kernel), "-initrd", os.fspath(image.initrd)),
        *("-append", f"root=/dev/vda ro {CONSOLE} quiet init=/bin/sh -- /dev/vdb"),
        *("-drive", f"file={image.disk},if=none,id=system,format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=system"),
        *("-drive", f"file={script},if=none,id=script,format=raw,readonly=on"),
        *("-device", "virtio-blk-pci,drive=script"),
        *_data(disks),
    ]


def command(hardware: Hardware, image: Image, around: Surroundings) -> list[str]:
    """The command that powers the machine on."""
    identity = f"type=1,serial={hardware.serial},uuid={hardware.uuid},manufacturer=QEMU,product=Standard PC"
    socat = programs.program("socat")
    reached = (
        f"guestfwd=tcp:{HOST}:{port}-cmd:{socat} - TCP:127.0.0.1:{port}" for port in (around.seed, around.agents)
    )
    return [
        programs.program("qemu-system-x86_64"),
        *PROCESSOR,
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-chardev", f"socket,id=console,path={around.console}"),
        *("-serial", "chardev:console"),
        *("-uuid", hardware.uuid, "-smbios", identity),
        *("-kernel", os.fspath(image.kernel), "-initrd", os.fspath(image.initrd)),
        *("-append", f"{KERNEL} ds=nocloud-net;s=http://{HOST}:{around.seed}/"),
        *("-drive", f"file={hardware.system},if=none,id=system,format=raw,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=system"),
        *("-netdev", ",".join(("user,id=network,restrict=on", *reached))),
        *("-device", f"virtio-net-pci,netdev=network,mac={hardware.mac},romfile="),
        *("-device", "virtio-rng-pci"),
        *_data(hardware.disks),
    ]
