"""Nodes on their way through MAAS, as the tests of the whole machine take them: their agents, machines and time.

The agent of an installation has nothing but what is in the machine's user data, as the installed system would.
"""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import msgspec

from farrier.config.sites import DeploySite
from farrier.config.sites import Site as SiteConfig
from farrier.model.node import TaskType
from farrier.sim.maas import Durations
from farrier.sim.maas.records import Machine as Record
from tests.support.site import MINUTE, SECOND, Machine, Site
from tests.support.stages import MAC, SITE

# Long enough to be seen at work, and no longer: each step of the time is a round of the loop.
QUICK = Durations(commission=MINUTE, deploy=MINUTE, power=timedelta(0), erase=MINUTE)
# Without its second hardware sync, which comes after a quarter of an hour.
UNSYNCED: SiteConfig = msgspec.structs.replace(SITE, deploy=DeploySite(hardware_sync=False))
_TOKEN = re.compile(r"^token: (fbt_[0-9a-f]+)$", re.MULTILINE)
_QUEUED = "SELECT type FROM farrier.node_tasks WHERE node_id = $1 AND status = 'queued'"


async def manageable(site: Site, **details: Any) -> Machine:
    """A node whose BMC answers, with the MAC that MAAS makes a machine with."""
    node = await site.with_bmc(**{"macs": [MAC]} | details)
    assert (await node.look())["management"] == "manageable"
    return node


async def maas_id(node: Machine) -> str | None:
    found: str | None = await node.site.conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE id = $1", node.id)
    return found


async def record(node: Machine) -> Record:
    """Its machine, in the region."""
    return node.site.maas.region.machines[await maas_id(node) or ""]


def token_of(machine: Record) -> str:
    """What is in the user data that the machine was deployed with."""
    user_data = base64.b64decode(machine.user_data or "").decode()
    found = _TOKEN.search(user_data)
    assert found is not None, user_data
    return found[1]


async def user_data_of(node: Machine) -> str:
    """What its machine was deployed with."""
    return base64.b64decode((await record(node)).user_data or "").decode()


async def until(node: Machine, *wanted: str, every: timedelta = 30 * SECOND) -> None:
    """Time passes until the node or its workflow is in one of these, or at such a stage."""

    async def is_there() -> bool:
        return bool({*(await node.state())}.intersection(wanted))

    await node.site.wait_until(is_there, every=every)


async def until_held(node: Machine, *, goal: str = "wait_for_agent_enrollment") -> bool:
    """Time passes until a change is held; False when the node is where it was to get, and none was."""
    for _ in range(20):
        await node.site.settled()
        if node.site.is_held or goal in await node.state():
            return node.site.is_held
        await node.site.pass_time(30 * SECOND)
    raise AssertionError(f"nothing is held, and {await node.state()}")


async def begun(node: Machine) -> Machine:
    return await node.asked("onboard", mode="deploy")


async def deployed(node: Machine) -> Machine:
    """Installed; its agent is waited for."""
    await until(node, "wait_for_agent_enrollment")
    return node


async def enrolled(node: Machine) -> Machine:
    """The agent of the installation comes up."""
    await node.enroll(token_of(await record(node)))
    return await node.beat()


async def active(site: Site, **details: Any) -> Machine:
    """Onboarded by MAAS, to the end."""
    node = await enrolled(await deployed(await begun(await manageable(site, **details))))
    assert (await node.state())[:2] == ("active", "completed")
    return node


async def cleaned(node: Machine) -> Machine:
    """Its agent does what it is asked, until nothing is left to do."""
    while queued := await node.site.conn.fetch(_QUEUED, node.id):
        for row in queued:
            await node.finish(TaskType(row["type"]))
    return node
