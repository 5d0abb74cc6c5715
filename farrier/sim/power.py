"""Connects the power of simulated machines: the BMC of a machine follows the region, and its agent follows the BMC.

The emulator of the BMCs and the region are separate programs. With this module, the BMC of a machine shows that the
region switched the machine off for a release, and on for a test.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import httpx
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.sim.bmc import SimulatedBmc
from farrier.sim.maas import Region
from farrier.sim.maas.records import Machine
from farrier.sim.serving import open_app

_log = structlog.stdlib.get_logger(__name__)

_LOOK_EVERY = timedelta(seconds=0.2)
# The emulator shows a change about a second later. It ignores a request for the state that it shows, although a change
# to the other state is pending, so the request is repeated until the state is there.
_AGAIN_AFTER = timedelta(seconds=1)
_AT_ONCE = 8
_RESETS = {"on": "On", "off": "ForceOff"}
_REPORTS = "for it in SUSHY_EMULATOR_FAKE_SYSTEMS: it['external_notifier'] = True\n"


@asynccontextmanager
async def machines_off(names: Mapping[str, str], off: set[str]) -> AsyncIterator[str]:
    """Keep in `off` the names of the machines that are off. `names` has the name of each system by its UUID. Yields the
    configuration with which an emulator reports each change of power."""

    async def reported(request: Request) -> Response:
        system = await request.json()
        (off.discard if system["power_state"] == "On" else off.add)(names[system["uuid"]])
        return Response()

    async with open_app(Starlette(routes=[Route("/", reported, methods=["PUT"])]), name="power") as url:
        yield f"EXTERNAL_NOTIFICATION_URL = {url!r}\n{_REPORTS}"


class PowerCables:
    """Connects the machines of a region with the systems of an emulator, by their MAC addresses."""

    def __init__(self, region: Region, bmc: SimulatedBmc) -> None:
        self._region = region
        self._bmc = bmc
        self._paths = {system.mac: system.path for system in bmc.systems}
        self._known: dict[str, str] = {}
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
                for machine in filter(self._differs, self._region.machines.values()):
                    self._busy.add(machine.system_id)
                    tasks.start_soon(self._follow, client, machine, slots)
                await anyio.sleep(_LOOK_EVERY.total_seconds())

    def _differs(self, machine: Machine) -> bool:
        """Return whether the region switched the machine, and nothing follows this yet."""
        known = self._known.get(machine.system_id)
        return machine.power_state in _RESETS and machine.power_state != known and machine.system_id not in self._busy

    async def _follow(self, client: httpx.AsyncClient, machine: Machine, slots: anyio.CapacityLimiter) -> None:
        """Request the power of the machine until its system shows it."""
        path = next(
            (self._paths[each.mac_address] for each in machine.interfaces if each.mac_address in self._paths), ""
        )
        try:
            while path and (wanted := machine.power_state) in _RESETS:
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
