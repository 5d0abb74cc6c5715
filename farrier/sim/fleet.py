"""A simulated fleet, whose nodes are registered and onboarded over SQL, with their agents.

The fleet acts like the services around a real farrier: it registers nodes, submits intents, enrolls agents, and reads
only the database. The controller is not simulated.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest, Registration
from farrier.model.machine import bootstrap
from farrier.model.node.layers import NODE, Management, NodeStatus, OnboardingMode, WorkflowStatus
from farrier.model.views.fleet import NodeGlance
from farrier.model.views.history import HistoryEntry, HistoryFilter
from farrier.protocols import FleetApi, Queries, Requests
from farrier.sim.agents import SimulatedAgents
from farrier.sim.bmc import SimulatedBmc, SimulatedSystem
from farrier.sim.hardware import serial_of
from farrier.sim.maas import Hardware, Nature

_log = structlog.stdlib.get_logger(__name__)

# One of this many nodes has no BMC in farrier. It is installed by hand, and its agent has a token.
_UNMANAGED_EVERY = 5
_ENROL_AT_ONCE = 8
_LOOK_EVERY = timedelta(seconds=0.5)


def has_bmc(number: int) -> bool:
    """Return whether the node with this number, counted from 1, has a BMC and therefore uses MAAS."""
    return number % _UNMANAGED_EVERY != 0


def name_of(number: int) -> str:
    """Return the name of the node with this number."""
    return f"gpu-{number:04}"


def natures(systems: Sequence[SimulatedSystem]) -> dict[str, Nature]:
    """Return the machines by their MAC addresses, with the identities that their BMCs and agents report."""
    return {each.mac: Nature(hardware=Hardware(serial=serial_of(each.mac), uuid=each.uuid)) for each in systems}


def planned(
    systems: Sequence[SimulatedSystem], bmc: SimulatedBmc, *, after: int, site: str
) -> tuple[Registration, ...]:
    """Return a node for each system. The numbers in the names begin with `after` + 1."""
    nodes = []
    for number, system in enumerate(systems, start=after + 1):
        of_bmc = {"bmc_address": bmc.addresses[system.uuid], "bmc_credential": f"file:{bmc.credential_file}"}
        by_hand = {"bootstrap_token": bootstrap.token(secrets.token_hex())}
        given: dict[str, Any] = of_bmc if has_bmc(number - after) else by_hand
        where: dict[str, Any] = {"rack": f"r{number // 16}", "site": site, "model": "simulated"}
        nodes.append(Registration(name=name_of(number), macs=(system.mac,), **given, **where))
    return tuple(nodes)


class SimulatedFleet:
    """The nodes of one simulation, whose IDs are greater than `after`."""

    def __init__(
        self,
        nodes: Sequence[Registration],
        *,
        api: FleetApi,
        requests: Requests,
        queries: Queries,
        agents: SimulatedAgents,
        after: int,
    ) -> None:
        self._nodes = nodes
        self._api = api
        self._requests = requests
        self._queries = queries
        self._agents = agents
        self._after = after
        self._names = frozenset(node.name for node in nodes)
        self._asked: set[str] = set()
        self.seen: tuple[NodeGlance, ...] = ()
        """The nodes as `glance` saw them last."""

    def __len__(self) -> int:
        return len(self._nodes)

    async def arrive(self, over: timedelta) -> None:
        """Register all nodes and onboard them, until cancelled. If a node has a BMC, MAAS deploys the node as soon as
        the BMC is manageable. The agents of the other nodes enroll at random times within the duration `over`. If the
        database is unreachable, wait for it."""
        await self._register()
        slots = anyio.CapacityLimiter(_ENROL_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for node in self._nodes:
                if node.bootstrap_token is not None:
                    delay = random.uniform(0, over.total_seconds())
                    tasks.start_soon(self._enrol, node.bootstrap_token, serial_of(*node.macs), slots, delay)
            while True:
                await self._onboard()
                await anyio.sleep(_LOOK_EVERY.total_seconds())

    async def _register(self) -> None:
        while True:
            try:
                await self._requests.register(self._nodes)
            except DatabaseUnreachable as away:
                _log.warning("fleet.not_registered", nodes=len(self), error=str(away))
                await anyio.sleep(_LOOK_EVERY.total_seconds())
                if not await self.glance():  # all are registered or none, but the response may have been lost
                    continue
            return

    async def _enrol(self, token: str, machine: str, slots: anyio.CapacityLimiter, delay: float) -> None:
        await anyio.sleep(delay)
        async with slots:
            await self._agents.enroll_at_last(token, machine)

    async def _onboard(self) -> None:
        """Request the onboarding of the nodes that are ready, once for each name: a user may give the machine of a
        deleted node to another one."""
        for node in await self.glance():
            ready = node.status is NodeStatus.ENROLLING and node.management is Management.MANAGEABLE
            wanted = ready and node.workflow_status is WorkflowStatus.PENDING and node.name not in self._asked
            if wanted and await self.ask(node, Action.ONBOARD, mode=OnboardingMode.DEPLOY):
                self._asked.add(node.name)

    async def ask(self, node: NodeGlance, action: Action, **params: object) -> bool:
        """Insert an intent. If it is refused, log this, because other clients also submit intents. Returns False if the
        database was unreachable.
        """
        try:
            await self._requests.ask(IntentRequest(resource=node.name, action=action, params=params))
        except DatabaseUnreachable as away:
            _log.warning("fleet.not_asked", node=node.name, action=action, error=str(away))
            return False
        except RefusedByModel as refused:
            _log.warning("fleet.refused", node=node.name, action=action, error=str(refused))
        return True

    async def glance(self) -> tuple[NodeGlance, ...]:
        """Return the present state of each node of the fleet, or the last known state while the database is
        unreachable. Nodes that others have registered are theirs."""
        try:
            self.seen = tuple(node for node in await self._api.glance(self._after) if node.name in self._names)
        except DatabaseUnreachable as away:
            _log.warning("fleet.not_seen", error=str(away))
        return self.seen

    async def moves(self, newest: int) -> tuple[HistoryEntry, ...]:
        """Read the last `newest` transitions, and return those of nodes, newest first. If the database is unreachable,
        return none."""
        try:
            page = await self._queries.history(HistoryFilter(), limit=newest)  # a page with a filter takes 100 ms
            return tuple(change for change in page.changes if change.kind == NODE)
        except DatabaseUnreachable as away:
            _log.warning("fleet.moves_not_seen", error=str(away))
            return ()
