"""A simulated fleet: nodes registered over SQL, their agents, and what happens to them.

Run by `farrier demo`. Behaves as the services around a real farrier do: registers, enrols, asks by intents,
and sees only what the database shows. The controller under it is the real one and knows of no simulation.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.actions import Action
from farrier.model.fleet import NewNode, NodeGlance
from farrier.model.status import NodeStatus
from farrier.protocols import FleetApi
from farrier.sim.agents import SimulatedAgents
from farrier.sim.bmc import SimulatedBmc, SimulatedSystem

_log = structlog.stdlib.get_logger(__name__)

# Of so many nodes one has no BMC that we may use.
_UNMANAGED_EVERY = 5
_ENROL_AT_ONCE = 8

_EVENT_EVERY = timedelta(seconds=6)
_LASTS = timedelta(seconds=15)
_LOOK_EVERY = timedelta(seconds=1)
_PATIENCE = timedelta(minutes=5)


def has_bmc(number: int) -> bool:
    """Whether the node with this number, from 1 on, is given a BMC."""
    return number % _UNMANAGED_EVERY != 0


def planned(systems: Sequence[SimulatedSystem], bmc: SimulatedBmc, *, after: int) -> tuple[NewNode, ...]:
    """A node for each system; names are numbered from `after` + 1."""
    return tuple(
        _planned(number, system, bmc if has_bmc(number - after) else None)
        for number, system in enumerate(systems, start=after + 1)
    )


def _planned(number: int, system: SimulatedSystem, bmc: SimulatedBmc | None) -> NewNode:
    return NewNode(
        name=f"gpu-{number:04}",
        token=secrets.token_hex(),
        bmc_address=f"{bmc.base_url}{system.path}" if bmc else None,
        bmc_credential=f"file:{bmc.credential_file}" if bmc else None,
        macs=(system.mac,),
        labels={"rack": f"r{number // 16}"},
        site="demo",
        model="simulated",
    )


class SimulatedFleet:
    """The nodes of one simulation, whose ids are above `after`."""

    def __init__(self, nodes: Sequence[NewNode], *, api: FleetApi, agents: SimulatedAgents, after: int) -> None:
        self._nodes = nodes
        self._api = api
        self._agents = agents
        self._after = after
        self.seen: tuple[NodeGlance, ...] = ()
        """The nodes as `glance` saw them last."""

    def __len__(self) -> int:
        return len(self._nodes)

    async def arrive(self, over: timedelta) -> None:
        """Register all nodes, then bring their agents to life, at random moments within `over`."""
        await self._api.register(self._nodes)
        slots = anyio.CapacityLimiter(_ENROL_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for node in self._nodes:
                tasks.start_soon(self._enrol, node, slots, random.uniform(0, over.total_seconds()))

    async def _enrol(self, node: NewNode, slots: anyio.CapacityLimiter, delay: float) -> None:
        await anyio.sleep(delay)
        async with slots:
            await self._agents.enroll(node.token)

    async def glance(self) -> tuple[NodeGlance, ...]:
        """Where each node stands now."""
        self.seen = await self._api.glance(self._after)
        return self.seen

    async def live(self) -> None:
        """Let things happen, for ever: a quarantine, a drain, a silent agent, one after the other."""
        events = (self._quarantine, self._drain, self._go_silent)
        async with anyio.create_task_group() as tasks:
            while True:
                for event in events:
                    await anyio.sleep(_EVENT_EVERY.total_seconds())
                    active = [node for node in await self.glance() if node.status is NodeStatus.ACTIVE]
                    if active:
                        tasks.start_soon(self._happen, event, random.choice(active))

    async def _happen(self, event: Callable[[NodeGlance], Awaitable[None]], node: NodeGlance) -> None:
        try:
            await event(node)
        except (DatabaseUnreachable, RefusedByModel) as refused:
            _log.warning("fleet.event_failed", node=node.name, error=str(refused))

    async def _quarantine(self, node: NodeGlance) -> None:
        await self._api.ask(node.name, Action.QUARANTINE, {"reason": "simulated: too many ECC errors"})
        await anyio.sleep(_LASTS.total_seconds())
        await self._api.ask(node.name, Action.RELEASE, {})

    async def _drain(self, node: NodeGlance) -> None:
        await self._api.ask(node.name, Action.DRAIN, {})
        await self._until(node, NodeStatus.RETIRED)
        await self._api.ask(node.name, Action.REACTIVATE, {})

    async def _go_silent(self, node: NodeGlance) -> None:
        self._agents.silence(node.id)
        await self._until(node, NodeStatus.OFFLINE)
        self._agents.revive(node.id)

    async def _until(self, node: NodeGlance, status: NodeStatus) -> None:
        """Look until the node is there, or until it seems not to come."""
        with anyio.move_on_after(_PATIENCE.total_seconds()):
            now = node.status
            while now is not status:
                await anyio.sleep(_LOOK_EVERY.total_seconds())
                now = next((seen.status for seen in await self._api.glance(node.id - 1)), status)
