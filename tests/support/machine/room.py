"""A machine in QEMU with everything around it: BMC, serial console, disks, and the rack of a simulated region."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec

from farrier.sim.bmc import SimulatedBmc, fake_systems, simulated_bmc
from farrier.sim.maas import DeployFate, Durations, Nature, Region
from tests.support.machine import power, qemu
from tests.support.machine.console import Console, console
from tests.support.machine.image import Image
from tests.support.machine.rack import Rack

SERIAL = "SN-QEMU-1"
SYSTEMS = fake_systems(1)
# The machine itself reports that it is deployed, when it fetches its user data.
NATURE = Nature(deploy=DeployFate.NEVER_REPORTS)
DURATIONS = Durations(commission=timedelta(seconds=1), deploy=timedelta(seconds=1))


class Room:
    """The machine from outside: its BMC, its serial console and its disks."""

    def __init__(self, directory: Path, image: Image, lines: Console, around: qemu.Surroundings) -> None:
        (system,) = SYSTEMS
        disk = directory / "system"
        self._image = image
        self._around = around
        self.console = lines
        self.hardware = qemu.Hardware(serial=SERIAL, uuid=system.uuid, mac=system.mac, system=disk)
        self.command = directory / "command.json"

    def insert(self, *disks: qemu.Disk) -> None:
        """Insert disks of data in place of those that the machine has; it uses them after its next power-on."""
        hardware = msgspec.structs.replace(self.hardware, disks=disks)
        self.command.write_bytes(msgspec.json.encode(qemu.command(hardware, self._image, self._around)))


def region() -> Region:
    """A region for the machine."""
    return Region(nature=NATURE, durations=DURATIONS)


@asynccontextmanager
async def room(
    directory: Path, image: Image, region: Region, *, agents: int
) -> AsyncIterator[tuple[Room, SimulatedBmc]]:
    """A machine that is off and has a new system disk, with its BMC. It reaches this computer's port `agents`. It ends
    with the context."""
    rack = Rack(region)
    socket = directory / "console"
    async with rack.seed() as seed, console(socket) as lines:
        around = qemu.Surroundings(console=socket, seed=seed, agents=agents)
        room = Room(directory, image, lines, around)
        await anyio.run_process(["cp", "--sparse=always", image.disk, room.hardware.system])
        room.insert()
        configuration = power.configuration(room.command, serial=SERIAL)
        async with (
            simulated_bmc(directory / "bmc", SYSTEMS, power="Off", configuration=configuration) as bmc,
            anyio.create_task_group() as switching,
        ):
            switching.start_soon(rack.switch, bmc)
            yield room, bmc
            switching.cancel_scope.cancel()
