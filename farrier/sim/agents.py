"""Simulated agents, which enroll, send heartbeats, and do the tasks of their nodes.

`farrier demo` and tests run simulated agents, which call the same SQL functions as real agents. Heartbeats are sent in
batches, a fraction of the fleet at a time, so that the load of the database is even with any number of agents. An agent
can become silent.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import NoReturn

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.agent import AgentTask, Enrolled, Heartbeat
from farrier.model.node import TaskType
from farrier.protocols import AgentApi

_log = structlog.stdlib.get_logger(__name__)

# The number of batches of heartbeats per interval. Real agents are not synchronized, and a hundred heartbeats in one
# transaction occupy a core for as long as a reaction of the controller may take.
_BATCHES = 100


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals and durations of simulated agents."""

    heartbeat_every: timedelta = timedelta(seconds=10)
    enroll_again_every: timedelta = timedelta(seconds=1)
    """The pause between two attempts to enroll, while the database does not respond."""
    look_for_tasks_every: timedelta = timedelta(seconds=1)
    task_takes: timedelta = timedelta(seconds=2)
    """The average duration of a task. Each task takes between 0.5 and 1.5 times this duration."""
    task_lease: timedelta = timedelta(seconds=30)


class SimulatedAgents:
    """Any number of agents, one per node."""

    def __init__(self, api: AgentApi, pace: Pace | None = None) -> None:
        self._api = api
        self._pace = pace or Pace()
        self._agents: dict[int, Enrolled] = {}
        self._silent: set[int] = set()

    def __len__(self) -> int:
        return len(self._agents)

    async def enroll(self, token: str) -> int:
        """Enroll the agent of one node. Returns the node's ID. Raises `RefusedByModel` for an invalid token."""
        agent = await self._api.enroll(token, {"os": "simulated"})
        self._agents[agent.node] = agent
        await self._beat([agent])
        return agent.node

    async def enroll_at_last(self, token: str, machine: str) -> int | None:
        """Enroll the agent of one node. Retry until the database responds, as a real agent does. Returns None if the
        token is refused. The log names the machine."""
        while True:
            try:
                return await self.enroll(token)
            except DatabaseUnreachable as away:
                _log.warning("agents.database_away", machine=machine, error=str(away))
                await anyio.sleep(self._pace.enroll_again_every.total_seconds())
            except RefusedByModel as refused:
                _log.warning("agents.not_enrolled", machine=machine, error=str(refused))
                return None

    def end(self, node: int) -> None:
        """End the agent of a node, because its disk was erased."""
        self._agents.pop(node, None)

    def silence(self, node: int) -> None:
        """Stop the agent's heartbeats and work until `revive`."""
        self._silent.add(node)

    def revive(self, node: int) -> None:
        """Continue heartbeats and work after `silence`."""
        self._silent.discard(node)

    async def run(self) -> None:
        """Send heartbeats and do tasks until cancelled. While the database is unreachable, wait for it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat_for_ever)
            while True:
                await anyio.sleep(self._pace.look_for_tasks_every.total_seconds())
                await self._take_tasks(tasks)

    async def _beat_for_ever(self) -> NoReturn:
        while True:
            for batch in range(_BATCHES):
                pause = self._pace.heartbeat_every.total_seconds() / _BATCHES
                await anyio.sleep(pause * random.uniform(0.8, 1.2))
                await self._beat(agent for agent in self._alive() if agent.node % _BATCHES == batch)

    def _alive(self) -> list[Enrolled]:
        return [agent for node, agent in self._agents.items() if node not in self._silent]

    async def _beat(self, agents: Iterable[Enrolled]) -> None:
        beats = [Heartbeat(agent) for agent in agents]
        if not beats:
            return
        try:
            known = await self._api.beat(beats)
        except (DatabaseUnreachable, RefusedByModel) as missed:
            _log.warning("agents.beat_missed", agents=len(beats), error=str(missed))
            return
        for node in {beat.agent.node for beat in beats} - known:
            self._agents.pop(node, None)
            _log.info("agents.ended", node=node)

    async def _take_tasks(self, tasks: TaskGroup) -> None:
        agents = self._alive()
        try:
            taken = await self._api.claim(agents, list(TaskType), self._pace.task_lease) if agents else ()
        except (DatabaseUnreachable, RefusedByModel) as missed:
            _log.warning("agents.claim_missed", agents=len(agents), error=str(missed))
            return
        for task in taken:
            tasks.start_soon(self._work, task)

    async def _work(self, task: AgentTask) -> None:
        """Do one task and renew its lease meanwhile. If the lease is lost, stop the task."""
        remaining = self._pace.task_takes.total_seconds() * random.uniform(0.5, 1.5)
        renew_every = self._pace.task_lease.total_seconds() / 3
        try:
            while remaining > renew_every:
                await anyio.sleep(renew_every)
                remaining -= renew_every
                await self._api.renew(task, self._pace.task_lease)
            await anyio.sleep(remaining)
            await self._finish(task)
        except (DatabaseUnreachable, RefusedByModel) as lost:
            _log.warning("agents.task_lost", task=task.id, node=task.agent.node, error=str(lost))

    async def _finish(self, task: AgentTask) -> None:
        if task.agent.node in self._silent:
            return  # if a machine fails, it reports nothing and its lease expires
        await self._api.finish(task, succeeded=True, result={"simulated": True})
