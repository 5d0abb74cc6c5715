"""Connects the power of simulated machines: the BMC of a machine follows the region, its agent follows the BMC, and the
region reads the BMC from time to time.

The emulator of the BMCs and the region are separate programs. With this module, the BMC of a machine shows that the
region switched the machine off for a release, and on for a test; and the region learns that others switched it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import anyio
import httpx
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.sim.bmc import SimulatedBmc, SimulatedSystem
from farrier.sim.hardware import serial_of
from farrier.sim.maas import Region, Status, work
from farrier.sim.maas.records import Machine
from farrier.sim.serving import open_app

_log = structlog.stdlib.get_logger(__name__)

_LOOK_EVERY = timedelta(seconds=0.2)
# The emulator shows a change about a second later. It ignores a request for the state that it shows, although a change
# to the other state is pending, so the request is repeated until the state is there.
_AGAIN_AFTER = timedelta(seconds=1)
_AT_ONCE = 8
# By the region's clock: how long a rack controller does not read a BMC again (maasserver/rpc/nodes.py:63).
_READ_EVERY = timedelta(minutes=5)
_RESETS = {"on": "On", "off": "ForceOff"}
_REPORTS = "for it in SUSHY_EMULATOR_FAKE_SYSTEMS: it['external_notifier'] = True\n"


@asynccontextmanager
async def machines_off(systems: Sequence[SimulatedSystem], off: set[str]) -> AsyncIterator[str]:
    """Keep in `off` the serial numbers of the machines that are off. Yields the configuration with which an emulator
    of `systems` reports each change of power, before a read shows it."""
    serials = {system.uuid: serial_of(system.mac) for system in systems}

    async def reported(request: Request) -> Response:
        system = await request.json()
        (off.discard if system["power_state"] == "On" else off.add)(serials[system["uuid"]])
        return Response()

    async with open_app(Starlette(routes=[Route("/", reported, methods=["PUT"])]), name="power") as url:
        yield f"EXTERNAL_NOTIFICATION_URL = {url!r}\n{_REPORTS}"


class PowerCables:
    """Connects the machines of a region with the systems of an emulator, by their MAC addresses. `off` has the serial
    numbers of the machines that are off."""

    def __init__(self, region: Region, bmc: SimulatedBmc, off: Container[str]) -> None:
        self._region = region
        self._bmc = bmc
        self._off = off
        self._systems = {system.mac: system for system in bmc.systems}
        self._known: dict[str, str] = {}
        self._read_at: dict[str, datetime] = {}
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Switch systems until cancelled."""
        context = ssl.create_default_context(cafile=self._bmc.ca_file)
        login = (self._bmc.username, self._bmc.password)
        slots = anyio.CapacityLimiter(_AT_ONCE)
        async with (
            httpx.AsyncClient(base_url=self._bmc.base_url, auth=login, verify=context, trust_env=False) as client,
            anyio.create_task_group() as tasks,
        ):
            while True:
                for machine in tuple(self._region.machines.values()):
                    was_switched = self._was_switched(machine)
                    if machine.system_id in self._busy or not (was_switched or self._is_due(machine)):
                        continue
                    system = self._system_of(machine)
                    if system is not None and was_switched:
                        self._busy.add(machine.system_id)
                        tasks.start_soon(self._follow, client, machine, system.path, slots)
                    elif system is not None:
                        self._read(machine, system)
                await anyio.sleep(_LOOK_EVERY.total_seconds())

    def _system_of(self, machine: Machine) -> SimulatedSystem | None:
        found = (self._systems.get(each.mac_address) for each in machine.interfaces)
        return next((system for system in found if system is not None), None)

    def _was_switched(self, machine: Machine) -> bool:
        """Return whether the region switched the machine, and its BMC has not followed yet."""
        return machine.power_state in _RESETS and machine.power_state != self._known.get(machine.system_id)

    def _is_due(self, machine: Machine) -> bool:
        """Return whether a rack controller reads the power now: never of a broken machine, nor while the region
        switches it (maasserver/rpc/nodes.py:69, provisioningserver/rpc/power.py:191)."""
        read_at = self._read_at.get(machine.system_id)
        is_old = read_at is None or self._region.now - read_at >= _READ_EVERY
        return is_old and bool(machine.power_type) and machine.status is not Status.BROKEN

    def _read(self, machine: Machine, system: SimulatedSystem) -> None:
        self._read_at[machine.system_id] = self._region.now
        self._known[machine.system_id] = power = "off" if serial_of(system.mac) in self._off else "on"
        work.notice_power(self._region, machine, power)

    async def _follow(
        self, client: httpx.AsyncClient, machine: Machine, path: str, slots: anyio.CapacityLimiter
    ) -> None:
        """Request the power of the machine until its system shows it."""
        try:
            while (wanted := machine.power_state) in _RESETS:
                async with slots:
                    if (await client.get(path)).json()["PowerState"].lower() == wanted:
                        self._known[machine.system_id] = wanted
                        return
                    reset = {"ResetType": _RESETS[wanted]}
                    (await client.post(f"{path}/Actions/ComputerSystem.Reset", json=reset)).raise_for_status()
                await anyio.sleep(_AGAIN_AFTER.total_seconds())
        except (httpx.HTTPError, ValueError, KeyError) as failure:
            _log.warning("power.not_switched", machine=machine.system_id, error=str(failure))
        finally:
            self._busy.discard(machine.system_id)
