"""A simulated MAAS region: the requests of a client go in; the responses, codes and events of a recorded real region
come out.

Tests, benchmarks and the demo use the simulated region. All data is in memory, and time passes only by `advance`:

    region = Region()                                      # users: ADMIN, OPERATOR; see also Durations, Nature
    client = httpx.AsyncClient(transport=RegionTransport(region), base_url="http://maas.test/MAAS/api/2.0/")
    region.advance(timedelta(minutes=10))                  # the simulated clock
    region.natures[system_id] = Nature(deploy=DeployFate.STORAGE_FAILS)    # or by host name or MAC address
    region.faults.add(Fault(op="deploy", broken=Broken.DROP))              # once: done, but the response is lost
    region.keys.skew = 600.0                               # the region's clock for signatures, seconds
    async with open_region(region, speed=60.0) as url: ... # over a socket, one minute a second
"""

from __future__ import annotations

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.faults import Broken, Fault
from farrier.sim.maas.hardware import (
    CommissionFate,
    DeployFate,
    DiskModel,
    Durations,
    EraseFate,
    Hardware,
    Nature,
    Nic,
    Printed,
    RunFate,
)
from farrier.sim.maas.http.app import RegionTransport, open_region
from farrier.sim.maas.http.call import User
from farrier.sim.maas.region import ADMIN, OPERATOR, Region

__all__ = [
    "ADMIN",
    "OPERATOR",
    "Broken",
    "CommissionFate",
    "DeployFate",
    "DiskModel",
    "Durations",
    "EraseFate",
    "Fault",
    "Hardware",
    "Nature",
    "Nic",
    "Printed",
    "Region",
    "RegionTransport",
    "RunFate",
    "Status",
    "User",
    "open_region",
]
