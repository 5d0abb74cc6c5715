"""The rack of a simulated region, with one real machine; it takes the place of `farrier.sim.installs`.

A deployment switches the machine on by its BMC, with the credential that the region has. The machine fetches the user
data that the region has stored, and then the region reports the machine as deployed.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from farrier.sim.bmc import SimulatedBmc
from farrier.sim.maas import Region, Status, work
from farrier.sim.maas.records import Machine
from farrier.sim.serving import open_app


async def reset(bmc: SimulatedBmc, type_: str, *, username: str, password: str) -> None:
    """Send a reset of this type to the machine."""
    context = ssl.create_default_context(cafile=bmc.ca_file)
    target = f"{bmc.base_url}{bmc.systems[0].path}/Actions/ComputerSystem.Reset"
    async with httpx.AsyncClient(verify=context, trust_env=False, auth=(username, password)) as client:
        (await client.post(target, json={"ResetType": type_})).raise_for_status()


class Rack:
    """What lies between the region and the machine: the BMC, and the data for cloud-init."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._send, self._receive = anyio.create_memory_object_stream[Machine](1)
        region.on_move.append(self._moved)

    @asynccontextmanager
    async def seed(self) -> AsyncIterator[int]:
        """Serve the data for cloud-init's data source NoCloud; yields the port of 127.0.0.1."""
        routes = [
            Route("/meta-data", self._meta_data),
            Route("/user-data", self._user_data),
            Route("/vendor-data", lambda _: PlainTextResponse("")),
        ]
        async with open_app(Starlette(routes=routes), name="seed of cloud-init") as url:
            port = urlsplit(url).port
            assert port is not None, "the port is in the URL"
            yield port

    async def switch(self, bmc: SimulatedBmc) -> None:
        """Switch the machine on for each deployment, until cancelled."""
        async with self._send, self._receive:
            async for machine in self._receive:
                known = machine.power_parameters
                await reset(bmc, "On", username=known["power_user"], password=known["power_pass"])

    def _moved(self, machine: Machine, _before: Status) -> None:
        if machine.status is Status.DEPLOYING:
            self._send.send_nowait(machine)

    def _installed(self) -> Machine | None:
        """The machine, unless it has no deployment: then it has nothing to boot from."""
        return next((machine for machine in self._region.machines.values() if machine.user_data), None)

    async def _meta_data(self, _: Request) -> PlainTextResponse:
        machine = self._installed()
        if machine is None:
            return PlainTextResponse("", status_code=404)
        return PlainTextResponse(f"instance-id: {machine.system_id}\nlocal-hostname: {machine.hostname}\n")

    async def _user_data(self, _: Request) -> PlainTextResponse:
        machine = self._installed()
        if machine is None:
            return PlainTextResponse("", status_code=404)
        if machine.status is Status.DEPLOYING:
            work.report(self._region, machine)
        return PlainTextResponse(base64.b64decode(machine.user_data or "").decode())
