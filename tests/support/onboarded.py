"""Takes nodes through MAAS for tests of the whole machinery: plays their agents, and moves time.

The agent of an installation has only the token in the machine's user data, as on an installed system.
"""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import msgspec

from farrier.config.sites import DeploySite
from farrier.config.sites import Site as SiteConfig
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import Durations
from farrier.sim.maas.records import Machine as Record
from tests.support.site import MINUTE, SECOND, Machine, Site
from tests.support.stages import MAC, SITE

# Durations just long enough that the tests see each state: each step of the time costs a round of the loop.
QUICK = Durations(commission=MINUTE, deploy=MINUTE, power=timedelta(0), erase=MINUTE)
# A site without hardware sync: the second sync of a deployment comes only after a quarter of an hour.
UNSYNCED: SiteConfig = msgspec.structs.replace(SITE, deploy=DeploySite(hardware_sync=False))
_TOKEN = re.compile(r"^token: (fbt_[0-9a-f]+)$", re.MULTILINE)
_QUEUED = "SELECT type FROM farrier.node_tasks WHERE node_id = $1 AND status = 'queued'"


async def manageable(site: Site, **details: Any) -> Machine:
    """A manageable node, with the MAC address that its machine gets in MAAS."""
    node = await site.with_bmc(**{"macs": [MAC]} | details)
    assert (await node.look())["management"] == "manageable"
    return node


async def maas_id(node: Machine) -> str | None:
    found: str | None = await node.site.conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE id = $1", node.id)
    return found


async def record(node: Machine) -> Record:
    """The node's machine in the region."""
    return node.site.maas.region.machines[await maas_id(node) or ""]


def token_of(machine: Record) -> str:
    """The bootstrap token in the user data of the machine's deployment."""
    user_data = base64.b64decode(machine.user_data or "").decode()
    found = _TOKEN.search(user_data)
    assert found is not None, user_data
    return found[1]


async def user_data_of(node: Machine) -> str:
    """The user data of the machine's deployment."""
    return base64.b64decode((await record(node)).user_data or "").decode()


async def until(node: Machine, *wanted: str, every: timedelta = 30 * SECOND) -> None:
    """Let time pass until the node or its workflow has one of these statuses, or is at one of these stages."""

    async def is_there() -> bool:
        return bool({*(await node.state())}.intersection(wanted))

    await node.site.wait_until(is_there, every=every)


async def until_held(node: Machine, *, goal: str = "wait_for_agent_enrollment") -> bool:
    """Let time pass until a change is held; returns False if the node reaches its goal first."""
    for _ in range(20):
        await node.site.settled()
        if node.site.is_held or goal in await node.state():
            return node.site.is_held
        await node.site.pass_time(30 * SECOND)
    raise AssertionError(f"nothing is held, and {await node.state()}")


async def begun(node: Machine) -> Machine:
    return await node.asked("onboard", mode="deploy")


async def deployed(node: Machine) -> Machine:
    """A node that is installed, and whose onboarding waits for its agent."""
    await until(node, "wait_for_agent_enrollment")
    return node


async def enrolled(node: Machine) -> Machine:
    """The agent of the installation enrolls and sends a heartbeat."""
    await node.enroll(token_of(await record(node)))
    return await node.beat()


async def active(site: Site, **details: Any) -> Machine:
    """A node that was onboarded by MAAS and is active."""
    node = await enrolled(await deployed(await begun(await manageable(site, **details))))
    assert (await node.state())[:2] == ("active", "completed")
    return node


async def cleaned(node: Machine) -> Machine:
    """The node's agent carries out tasks until none is left."""
    while queued := await node.site.conn.fetch(_QUEUED, node.id):
        for row in queued:
            await node.finish(TaskType(row["type"]))
    return node
