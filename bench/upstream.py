"""Runs a simulated MAAS region beside a daemon, with its future fleet, the agents of its machines, and its
configuration files.

The benchmarks of MAAS use this module. The region and the agents of its machines run in this process; the daemon is a
separate process and connects to the region over a socket. The nodes' BMCs are verified beforehand, as in a generated
fleet, because the figures are about MAAS.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec

from bench import door, fleet
from bench.ground import Ground
from farrier import memory
from farrier.config import CredentialBinding
from farrier.sim.agents import SimulatedAgents
from farrier.sim.installs import TEMPLATE, Installations
from farrier.sim.maas import Region, open_region
from farrier.sim.maas.files import write_site

SITE = "bench"

_CREDENTIAL = {"username": "farrier", "password": "never-used-elsewhere"}
_BMC = """{"power": "on", "good_version": "1", "tried_version": "1", "system_path": "/redfish/v1/Systems/1"}"""
# Each node has a different BMC address and a different MAC address. Nothing is sent to these addresses. One statement
# registers all nodes; it is not measured.
_SECONDS = 60
_REGISTER = """
    SELECT farrier.register_node(
               'gpu-' || n, site => $2, bmc_credential => $3,
               bmc_address => format('https://10.%s.%s.%s', 100 + n / 62500, n / 250 % 250, n % 250 + 1),
               macs => ARRAY[format('02:54:00:%s:%s:%s', lpad(to_hex(n / 65536), 2, '0'),
                                    lpad(to_hex(n / 256 % 256), 2, '0'), lpad(to_hex(n % 256), 2, '0'))])
      FROM generate_series($1::integer, $1::integer + $4::integer - 1) n
"""
_VERIFIED = """
    UPDATE farrier.nodes
       SET management = 'manageable',
           bmc = $1::jsonb || jsonb_build_object('power_at', farrier.now() + interval '1 day')
     WHERE management = 'enroll'
"""
_ASK = """
    INSERT INTO farrier.intents (node, action, params)
    SELECT n.id, 'onboard', '{"mode": "deploy"}' FROM farrier.nodes n WHERE n.name = ANY ($1::text[])
"""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals at which farrier reads the region."""

    events_every: timedelta
    motion_every: timedelta


class Upstream(msgspec.Struct, frozen=True):
    """A running region."""

    region: Region
    url: str
    credential: str
    environment: Mapping[str, str]
    """The settings with which a daemon reaches it."""


@asynccontextmanager
async def served(region: Region) -> AsyncIterator[str]:
    """Serve `region` over a socket, with its clock at real speed, and yield its URL. The objects of this process are
    excluded from later garbage collections. Otherwise a full collection would pause the region, unlike a real region,
    and the pause would be longer after each measurement."""
    async with open_region(region, speed=1.0) as url:
        memory.settle()
        yield url


@asynccontextmanager
async def upstream(
    ground: Ground, region: Region, pace: Pace, *, boot: timedelta = timedelta(0)
) -> AsyncIterator[Upstream]:
    """Serve `region` over a socket, with its clock at real speed. The agent of a machine starts `boot` after the region
    has deployed the machine. The server and the agents stop at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="farrier-maas-") as directory:
        async with served(region) as url, door.client(ground) as client:
            agents = SimulatedAgents(client)
            installations = Installations(region, agents, boot=boot)
            files = write_site(
                Path(directory),
                SITE,
                url,
                template=TEMPLATE,
                events_every=pace.events_every,
                motion_every=pace.motion_every,
            )
            credential = files.secrets / "bmc.json"
            credential.write_bytes(msgspec.json.encode(_CREDENTIAL))
            binding = CredentialBinding(references=(f"file:{credential}",), networks=("10.0.0.0/8",))
            environment = {
                "FARRIER_SITES_DIRECTORY": str(files.sites),
                "FARRIER_CREDENTIALS_FILE_ROOTS": str(files.secrets),
                "FARRIER_CREDENTIALS_BINDINGS": msgspec.json.encode([binding]).decode(),
            }
            async with anyio.create_task_group() as living:
                living.start_soon(agents.run)
                living.start_soon(installations.run)
                yield Upstream(region, url, f"file:{credential}", environment)
                living.cancel_scope.cancel()


async def register(ground: Ground, there: Upstream, nodes: int, *, first: int = 1) -> Sequence[str]:
    """Register nodes with verified BMCs that wait for an onboarding. Returns their names."""
    await ground.pool.execute(_REGISTER, first, SITE, there.credential, nodes, timeout=_SECONDS)
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(fleet.WITHOUT_GUARDS)
        await conn.execute(_VERIFIED, _BMC, timeout=_SECONDS)
        await conn.execute(fleet.WITH_GUARDS)
    await fleet.settle(ground)
    return [f"gpu-{number}" for number in range(first, first + nodes)]


async def onboard(ground: Ground, names: Sequence[str]) -> None:
    """Submit intents for the onboarding of these nodes in mode deploy, with one statement."""
    await ground.pool.execute(_ASK, names, timeout=_SECONDS)
