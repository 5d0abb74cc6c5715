"""Causes events in a simulated fleet: quarantines, drains, silent agents, reimages, removals.

`farrier demo` runs this module, except with `--until-active`. An event happens every few seconds to a node in service,
but only while few nodes are out of service because of earlier events.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import cycle
from math import ceil
from typing import assert_never

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.model.intents.actions import Action
from farrier.model.node.layers import DecommissionMode, Management, NodeStatus
from farrier.model.views.fleet import NodeGlance
from farrier.sim.agents import SimulatedAgents
from farrier.sim.fleet import SimulatedFleet

_log = structlog.stdlib.get_logger(__name__)

_EVENT_EVERY = timedelta(seconds=6)
_LASTS = timedelta(seconds=15)
_LOOK_EVERY = timedelta(seconds=1)
_PATIENCE = timedelta(minutes=5)
# One of `_AWAY_EVERY` nodes may be out of service because of an event, and one of `_REMOVED_EVERY` may be removed. So a
# fleet of any size stays healthy for as long as the demo runs.
_AWAY_EVERY = 6
_REMOVED_EVERY = 10
# At most one agent becomes silent in this time. If more agents became silent in an hour, FarrierFlapping would fire,
# although the fleet of the demo is healthy.
_SILENCE_EVERY = timedelta(minutes=15)


class FleetEvent(StrEnum):
    """An event of a node."""

    QUARANTINE = "quarantine"
    DRAIN = "drain"
    SILENCE = "silence"
    REIMAGE = "reimage"
    REMOVAL = "removal"


_IN_MAAS = (FleetEvent.REIMAGE, FleetEvent.REMOVAL)


def candidates(event: FleetEvent, nodes: Sequence[NodeGlance], away: Collection[int]) -> list[NodeGlance]:
    """Return the nodes to which the event may happen now. `away` are the IDs of nodes that are out of service because
    of an event."""
    if len(away) >= ceil(len(nodes) / _AWAY_EVERY):
        return []
    return [
        node
        for node in nodes
        if node.status is NodeStatus.ACTIVE
        and node.id not in away
        and (event not in _IN_MAAS or node.management is Management.MANAGEABLE)
    ]


def removals(nodes: int) -> int:
    """Return how many nodes of a fleet are removed and not registered again; none if the fleet has one node."""
    return min(ceil(nodes / _REMOVED_EVERY), nodes - 1)


def turns(now: Callable[[], float]) -> Iterator[FleetEvent]:
    """Yield the kinds of events in a cycle, without end. `now` is in seconds. Silent agents are rare."""
    silent_at = float("-inf")
    for event in cycle(FleetEvent):
        if event is FleetEvent.SILENCE:
            if now() - silent_at < _SILENCE_EVERY.total_seconds():
                continue
            silent_at = now()
        yield event


class Happenings:
    """Causes the events in the same way as operators and agents cause them."""

    def __init__(self, fleet: SimulatedFleet, agents: SimulatedAgents) -> None:
        self._fleet = fleet
        self._agents = agents
        self._away: set[int] = set()
        self._removed = 0

    async def run(self) -> None:
        """Start one event after the other until cancelled."""
        async with anyio.create_task_group() as tasks:
            for event in turns(anyio.current_time):
                await anyio.sleep(_EVENT_EVERY.total_seconds())
                if event is FleetEvent.REMOVAL:
                    if self._removed == removals(len(self._fleet)):
                        continue
                    self._removed += 1
                node = await self._next(event)
                self._away.add(node.id)
                tasks.start_soon(self._happen, event, node)

    async def _next(self, event: FleetEvent) -> NodeGlance:
        """Return a node that is suitable for the event. If there is no such node, wait for one."""
        while not (fit := candidates(event, self._fleet.seen, self._away)):  # noqa: ASYNC110 - others look
            await anyio.sleep(_LOOK_EVERY.total_seconds())
        return random.choice(fit)

    async def _happen(self, event: FleetEvent, node: NodeGlance) -> None:
        """Cause the event, and wait until the node is back in service, or deleted."""
        try:
            match event:
                case FleetEvent.QUARANTINE:
                    await self._quarantine(node)
                case FleetEvent.DRAIN:
                    await self._drain(node)
                case FleetEvent.SILENCE:
                    await self._go_silent(node)
                case FleetEvent.REIMAGE:
                    await self._reimage(node)
                case FleetEvent.REMOVAL:
                    await self._remove(node)
                case _:
                    assert_never(event)
        except DatabaseUnreachable as lost:
            _log.warning("fleet.event_failed", node=node.name, error=str(lost))
        self._away.discard(node.id)

    async def _quarantine(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.QUARANTINE, reason="simulated: too many ECC errors")
        await anyio.sleep(_LASTS.total_seconds())
        await self._fleet.ask(node, Action.RELEASE)
        await self._until(node, NodeStatus.ACTIVE)

    async def _drain(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DRAIN)
        await self._until(node, NodeStatus.RETIRED)
        await self._fleet.ask(node, Action.REACTIVATE)
        await self._until(node, NodeStatus.ACTIVE)

    async def _go_silent(self, node: NodeGlance) -> None:
        self._agents.silent.add(node.name)
        await self._until(node, NodeStatus.OFFLINE)
        self._agents.silent.discard(node.name)
        await self._until(node, NodeStatus.ACTIVE)

    async def _reimage(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DECOMMISSION, mode=DecommissionMode.REIMAGE)
        await self._until(node, *(status for status in NodeStatus if status is not NodeStatus.ACTIVE))
        await self._until(node, NodeStatus.ACTIVE)

    async def _remove(self, node: NodeGlance) -> None:
        await self._fleet.ask(node, Action.DECOMMISSION, mode=DecommissionMode.FULL_DECOMMISSION, leave_on=True)
        await self._until(node, NodeStatus.DELETED)

    async def _until(self, node: NodeGlance, *statuses: NodeStatus) -> None:
        """Wait until the node is in one of these statuses, but at most `_PATIENCE`."""
        with anyio.move_on_after(_PATIENCE.total_seconds()):
            while not any(seen.id == node.id and seen.status in statuses for seen in self._fleet.seen):  # noqa: ASYNC110
                await anyio.sleep(_LOOK_EVERY.total_seconds())
