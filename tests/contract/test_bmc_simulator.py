"""The simulated BMCs of the demo: they start by themselves, keep their power state, and never outlive their parent."""

from __future__ import annotations

import os
import select
import signal
import ssl
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import msgspec
import pytest

from farrier.model.machine.bmc import BmcTarget, PowerState
from farrier.sim.bmc import PROMPT, SimulatedBmc, SimulatorFailed, fake_systems, simulated_bmc
from farrier.sim.certificates import ServerFiles
from farrier.sim.hardware import serial_of
from farrier.sim.maas import Region
from farrier.sim.power import PowerCables, machines_off
from tests.support.bmc import CREDENTIAL, connect
from tests.support.maas_region import Caller, created
from tests.support.process import until

PARENT = """
import anyio, sys
from pathlib import Path
from farrier.sim.bmc import fake_systems, simulated_bmc

async def main():
    async with simulated_bmc(Path(sys.argv[1]), fake_systems(1)) as bmc:
        print(bmc.process, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def ends(process: int) -> None:
    """Wait until a process, which may be no child of this process, has ended."""
    handle = os.pidfd_open(process)
    try:
        readable, _, _ = await anyio.to_thread.run_sync(select.select, [handle], [], [], 20)
    finally:
        os.close(handle)
    assert readable, f"process {process} is still there"


async def read_all(bmc: SimulatedBmc) -> list[PowerState]:
    """The power of every system, through the client that the nodes use."""
    states = []
    async with connect(bmc.ca_file, credential=f"{bmc.username}:{bmc.password}") as client:
        for system in bmc.systems:
            address = bmc.addresses[system.uuid].removesuffix(system.path)
            target = BmcTarget(address=address, credential=CREDENTIAL, system_path=system.path)
            reading = await client.verify(target)
            assert reading.uuid == system.uuid
            states.append(reading.power)
    return states


async def test_one_emulator_serves_many_systems_and_ends_with_its_context(tmp_path: Path) -> None:
    systems = fake_systems(20)
    async with simulated_bmc(tmp_path, systems) as bmc:
        assert bmc.systems == systems
        assert await read_all(bmc) == [PowerState.ON] * 20
        assert len({address.partition("/redfish")[0] for address in bmc.addresses.values()}) == 20
        assert bmc.password not in repr(bmc)
        assert msgspec.json.decode(bmc.credential_file.read_bytes())["username"] == bmc.username
        assert bmc.credential_file.stat().st_mode & 0o077 == 0
    with pytest.raises(ProcessLookupError):
        os.kill(bmc.process, 0)


async def test_power_states_survive_a_restart(tmp_path: Path) -> None:
    systems = fake_systems(1)
    async with simulated_bmc(tmp_path, systems, power="Off") as bmc:
        assert await read_all(bmc) == [PowerState.OFF]
    async with simulated_bmc(tmp_path, systems, power="On") as bmc:
        assert await read_all(bmc) == [PowerState.OFF]


async def test_a_request_without_the_password_is_unauthorized(tmp_path: Path) -> None:
    async with (
        simulated_bmc(tmp_path, fake_systems(1)) as bmc,
        httpx.AsyncClient(verify=ssl.create_default_context(cafile=bmc.ca_file), trust_env=False) as client,
    ):
        answer = await client.get(f"{bmc.base_url}{bmc.systems[0].path}")
    assert answer.status_code == httpx.codes.UNAUTHORIZED


async def test_the_emulator_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """However farrier ends, no emulator keeps running."""
    parent = await anyio.open_process([sys.executable, "-c", PARENT, str(tmp_path)], stderr=subprocess.DEVNULL)
    async with parent:
        assert parent.stdout is not None
        emulator = int(await parent.stdout.receive())
        os.kill(parent.pid, signal.SIGKILL)
        await ends(emulator)


async def test_the_error_of_an_emulator_that_cannot_start_has_its_output(tmp_path: Path) -> None:
    nothing = ServerFiles(certificate=tmp_path / "none.crt", key=tmp_path / "none.key")
    with pytest.raises(SimulatorFailed, match=r"it ended with 1 and printed: (?s:.*)FileNotFoundError"):
        async with simulated_bmc(tmp_path, fake_systems(1), certificate=nothing):
            pass


def test_systems_are_the_same_each_time_and_differ_from_each_other() -> None:
    systems = fake_systems(200)
    assert systems == fake_systems(200)
    assert len({system.uuid for system in systems}) == len({system.mac for system in systems}) == 200


async def test_the_bmc_and_the_agent_follow_the_region_and_the_region_reads_the_bmc(tmp_path: Path) -> None:
    region, systems, off = Region(), fake_systems(2), set[str]()
    machine = region.machines[await created(Caller(region), mac_addresses=systems[0].mac)]
    serial = serial_of(systems[0].mac)

    async def shows(power: PowerState) -> bool:
        return await read_all(bmc) == [power, PowerState.ON] and off == ({serial} if power == "off" else set())

    async def reads(power: PowerState, later: timedelta = timedelta(0)) -> bool:
        region.advance(later)  # again and again: a read that has begun shows the power from before
        return machine.power_state == power

    async with (
        machines_off(systems, off) as reports,
        simulated_bmc(tmp_path, systems, configuration=PROMPT + reports) as bmc,
        httpx.AsyncClient(
            auth=(bmc.username, bmc.password),
            verify=ssl.create_default_context(cafile=bmc.ca_file),
            base_url=bmc.base_url,
            trust_env=False,
        ) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(PowerCables(region, bmc, off).run)
        await until(partial(reads, PowerState.ON))
        for power in (PowerState.OFF, PowerState.ON):
            machine.power_state = power.value
            await until(partial(shows, power))
        reset = f"{systems[0].path}/Actions/ComputerSystem.Reset"
        await client.post(reset, json={"ResetType": "ForceOff"})
        await until(partial(shows, PowerState.OFF))
        assert machine.power_state == PowerState.ON, "it was read less than five minutes ago"
        await until(partial(reads, PowerState.OFF, timedelta(minutes=5)))
        tasks.cancel_scope.cancel()
