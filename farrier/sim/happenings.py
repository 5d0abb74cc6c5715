"""What happens to a simulated fleet while somebody watches: quarantines, drains, silent agents, reimages, removals.

Run by `farrier demo`, never with `--until-active`. One thing after the other, each to a node in service.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.model.actions import Action
from farrier.model.fleet import NodeGlance
from farrier.model.management import Management
from farrier.model.status import NodeStatus
from farrier.model.workflow import DecommissionMode
from farrier.sim.agents import SimulatedAgents
from farrier.sim.fleet import SimulatedFleet

_log = structlog.stdlib.get_logger(__name__)

_EVENT_EVERY = timedelta(seconds=6)
_LASTS = timedelta(seconds=15)
_LOOK_EVERY = timedelta(seconds=1)
_PATIENCE = timedelta(minutes=5)


class Happenings:
    """See above. Never touches the database but as others do."""

    def __init__(self, fleet: SimulatedFleet, agents: SimulatedAgents) -> None:
        self._fleet = fleet
        self._agents = agents

    async def run(self) -> None:
        """One after the other, for ever."""
        events = (self._quarantine, self._drain, self._go_silent, self._reimage, self._remove)
        async with anyio.create_task_group() as tasks:
            while True:
                for event in events:
                    await anyio.sleep(_EVENT_EVERY.total_seconds())
                    await self._begin(event, tasks)

    async def _begin(self, event: Callable[[NodeGlance], Awaitable[None]], tasks: anyio.abc.TaskGroup) -> None:
        in_maas = event in (self._reimage, self._remove)
        fit = [
            node
            for node in self._fleet.seen
            if node.status is NodeStatus.ACTIVE and (not in_maas or node.management is Management.MANAGEABLE)
        ]
        if fit:
            tasks.start_soon(self._happen, event, random.choice(fit))

    async def _happen(self, event: Callable[[NodeGlance], Awaitable[None]], node: NodeGlance) -> None:
        try:
            await event(node)
        except DatabaseUnreachable as lost:
            _log.warning("fleet.event_failed", node=node.name, error=str(lost))

    async def _quarantine(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.QUARANTINE, reason="simulated: too many ECC errors")
        await anyio.sleep(_LASTS.total_seconds())
        await self._fleet.ask(node, Action.RELEASE)

    async def _drain(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DRAIN)
        await self._until(node, NodeStatus.RETIRED)
        await self._fleet.ask(node, Action.REACTIVATE)

    async def _go_silent(self, node: NodeGlance) -> None:
        self._agents.silence(node.id)
        await self._until(node, NodeStatus.OFFLINE)
        self._agents.revive(node.id)

    async def _reimage(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DECOMMISSION, mode=DecommissionMode.REIMAGE)

    async def _remove(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DECOMMISSION, mode=DecommissionMode.FULL_DECOMMISSION)

    async def _until(self, node: NodeGlance, status: NodeStatus) -> None:
        """Look until the node is there, or until it seems not to come."""
        with anyio.move_on_after(_PATIENCE.total_seconds()):
            now = node.status
            while now is not status:
                await anyio.sleep(_LOOK_EVERY.total_seconds())
                now = next((seen.status for seen in self._fleet.seen if seen.id == node.id), status)
