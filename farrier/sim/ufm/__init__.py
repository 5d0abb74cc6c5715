"""A simulated UFM: requests for partition keys go in; its responses come out, with its rules and peculiarities.

Tests, benchmarks and the demo use the simulated UFM. All data is in memory, and only calls change it:

    manager = Manager()                                    # user `admin`, password and token are its own
    client = httpx.AsyncClient(transport=UfmTransport(manager), base_url="http://ufm.test/ufmRest/")
    manager.ports = {"0002c903000e0b72"}                   # UFM refuses any other port; None: it takes all
    manager.refuses[0x12] = "no resources"                 # every change of this key
    manager.asynchronous = True                            # accepted changes are made at `settle`
    manager.faults.add(Fault(op="add", broken=Broken.DROP))  # once: done, but the response is lost
    async with open_ufm(manager) as url: ...               # over a socket
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from farrier.sim.faults import Broken, Fault
from farrier.sim.serving import AppTransport, open_app
from farrier.sim.ufm.app import ManagerApp
from farrier.sim.ufm.manager import Manager, Partition


class UfmTransport(AppTransport):
    """A transport that sends requests to `manager` without a socket."""

    def __init__(self, manager: Manager) -> None:
        super().__init__(ManagerApp(manager))


@asynccontextmanager
async def open_ufm(manager: Manager) -> AsyncIterator[str]:
    """Serve `manager` on 127.0.0.1. Yields the base URL, `http://127.0.0.1:PORT`."""
    async with open_app(ManagerApp(manager), name="ufm simulation") as url:
        yield url


__all__ = ["Broken", "Fault", "Manager", "Partition", "UfmTransport", "open_ufm"]
