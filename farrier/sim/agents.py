"""Simulated agents, which enroll, send heartbeats, and do the tasks of their nodes.

They use the agents' API as real agents do, and share a few connections to one server. The heartbeats of many agents are
spread over their interval, so that the load of the server is even.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from typing_extensions import override

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.node.snapshot import TaskType
from farrier.sim.hardware import evidence_of, facts_of
from farrier.sim.maas.hardware import DiskModel

_log = structlog.stdlib.get_logger(__name__)

_TYPES = tuple(type_.value for type_ in TaskType)
# The pause between two looks for agents whose heartbeat is due, in seconds.
_TICK = 0.02
# Heartbeats that agents send at the same time.
_AT_ONCE = 64
# More connections would not be faster: the server sends heartbeats of 100 ms to the database together.
_CONNECTIONS = 32
_SECONDS = 30.0
# The server cannot answer now, or has too many requests.
_LATER = frozenset({429, 502, 503, 504})
_UNKNOWN_KEY = 401


class Agent(msgspec.Struct, frozen=True):
    """An enrolled agent: the name of its node, its key, and the boot of its machine."""

    node: str
    key: str
    boot: UUID

    @override
    def __repr__(self) -> str:
        return f"Agent(node={self.node}, key=***)"


class Next(msgspec.Struct, frozen=True):
    """What an agent does next: the seconds until its next heartbeat, and what the server wants."""

    interval: float
    wants: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True):
    """A claimed task."""

    id: int
    type: str
    lease_token: UUID


class UnknownKey(RefusedByModel):
    """The node was deleted, or another agent has enrolled."""


class AgentsClient:
    """The calls of agents. All methods raise `RefusedByModel` if the server refuses the call, `UnknownKey` if it is the
    key that the server does not accept, and `DatabaseUnreachable` if it cannot answer now."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def enroll(self, token: str, facts: Mapping[str, Any]) -> Agent:
        """Enrol an agent with a new key."""
        key, boot = f"fak_{uuid4().hex}{uuid4().hex}", uuid4()
        body = {"token": token, "key_digest": sha256(key.encode()).hexdigest(), "facts": facts, "boot_id": boot}
        answer = await self._send("enroll", body, None)
        return Agent(answer["node"], key, boot)

    async def beat(self, agent: Agent) -> Next:
        """Send a heartbeat of a healthy machine."""
        return msgspec.convert(await self._send("heartbeat", {"boot_id": agent.boot}, agent.key), Next)

    async def claim(self, agent: Agent, types: tuple[str, ...], lease: timedelta) -> Task | None:
        """Claim a task of the agent's node."""
        body = {"idempotency_key": uuid4(), "types": types, "lease": lease.total_seconds()}
        task = (await self._send("claim", body, agent.key))["task"]
        return None if task is None else msgspec.convert(task, Task)

    async def renew(self, agent: Agent, task: Task, lease: timedelta) -> None:
        """Extend the lease of a task."""
        body = {"lease_token": task.lease_token, "lease": lease.total_seconds()}
        await self._send(f"task/{task.id}/renew", body, agent.key)

    async def finish(self, agent: Agent, task: Task, *, result: str, evidence: Mapping[str, Any] | None = None) -> None:
        """End a task that succeeded."""
        body = {"lease_token": task.lease_token, "succeeded": True, "result": result, "evidence": evidence}
        await self._send(f"task/{task.id}/finish", body, agent.key)

    async def _send(self, path: str, body: Mapping[str, Any], key: str | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        url = f"{self._url}/agent/v1/{path}"
        try:
            async with self._session.post(url, data=msgspec.json.encode(body), headers=headers) as response:
                status, content = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as failure:
            raise DatabaseUnreachable(self._url, str(failure) or type(failure).__name__) from failure
        if status in _LATER:
            raise DatabaseUnreachable(self._url, f"the server for agents responded {status}")
        if status >= 400:
            problem = msgspec.json.decode(content)
            raise (UnknownKey if status == _UNKNOWN_KEY else RefusedByModel)(problem["detail"])
        return msgspec.json.decode(content)


@asynccontextmanager
async def agents_client(url: str) -> AsyncIterator[AgentsClient]:
    """Open the connections to the server at this URL."""
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield AgentsClient(session, url)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals and durations of simulated agents."""

    heartbeat_every: timedelta = timedelta(seconds=10)
    """The longest interval of an agent. If the server wants its next heartbeat sooner, the agent follows."""
    again_every: timedelta = timedelta(seconds=1)
    """The pause before an agent tries again, while the server does not respond."""
    task_takes: timedelta = timedelta(seconds=2)
    """The average duration of a task. Each task takes between 0.5 and 1.5 times this duration."""
    task_lease: timedelta = timedelta(seconds=30)


class SimulatedAgents:
    """Any number of agents, one per node. The agents of the nodes in `silent`, and of the machines whose serial numbers
    are in `off`, neither send heartbeats nor work."""

    def __init__(self, client: AgentsClient, pace: Pace | None = None, off: Container[str] = frozenset()) -> None:
        self._client = client
        self._pace = pace or Pace()
        self._agents: dict[str, Agent] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self.silent: set[str] = set()
        self._off = off
        # The times at which heartbeats are due, by time.monotonic, with the node and the key of its agent.
        self._due: list[tuple[float, str, str]] = []
        self._slots = anyio.Semaphore(_AT_ONCE)

    def __len__(self) -> int:
        return len(self._agents)

    async def enroll(self, token: str, machine: str = "machine", disks: Sequence[DiskModel] = ()) -> str:
        """Enroll the agent of one node, on the machine with this serial number and these disks. Returns the node's
        name. Raises `RefusedByModel` for an invalid token."""
        facts = facts_of(machine, disks)
        agent = await self._client.enroll(token, facts)
        self._agents[agent.node] = agent
        self._facts[agent.node] = facts
        self._plan(agent, (await self._client.beat(agent)).interval)
        return agent.node

    async def enroll_at_last(self, token: str, machine: str, disks: Sequence[DiskModel] = ()) -> str | None:
        """Enroll the agent of one node. Retry until the server responds, as a real agent does. Returns None if the
        token is refused. The log names the machine."""
        while True:
            try:
                return await self.enroll(token, machine, disks)
            except DatabaseUnreachable as away:
                _log.warning("agents.server_away", machine=machine, error=str(away))
                await anyio.sleep(self._pace.again_every.total_seconds())
            except RefusedByModel as refused:
                _log.warning("agents.not_enrolled", machine=machine, error=str(refused))
                return None

    def is_silent(self, node: str) -> bool:
        """Return whether the agent of a node is silent."""
        return node in self.silent or self._facts[node]["serial"] in self._off

    def end(self, node: str) -> None:
        """End the agent of a node, because its disk was erased."""
        self._agents.pop(node, None)

    async def run(self) -> None:
        """Send heartbeats and do tasks until cancelled. While the server is unreachable, wait for it."""
        async with anyio.create_task_group() as tasks:
            while True:
                while self._due and self._due[0][0] <= time.monotonic():
                    _, node, key = heapq.heappop(self._due)
                    agent = self._agents.get(node)
                    if agent is not None and agent.key == key:  # otherwise it has ended, or enrolled again
                        await self._slots.acquire()
                        tasks.start_soon(self._beat, agent, tasks)
                await anyio.sleep(min(_TICK, self._pace.heartbeat_every.total_seconds()))

    def _plan(self, agent: Agent, seconds: float) -> None:
        """Plan the next heartbeat of an agent. Agents are not synchronized."""
        pause = min(seconds, self._pace.heartbeat_every.total_seconds())
        heapq.heappush(self._due, (time.monotonic() + pause * random.uniform(0.8, 1.2), agent.node, agent.key))

    async def _beat(self, agent: Agent, tasks: TaskGroup) -> None:
        """Send a heartbeat, and claim a task if the server wants it."""
        try:
            after = Next(self._pace.heartbeat_every.total_seconds())
            if not self.is_silent(agent.node):
                after = await self._client.beat(agent)
                if "claim" in after.wants:
                    await self._claim(agent, tasks)
        except UnknownKey:
            if self._agents.get(agent.node) == agent:
                self._agents.pop(agent.node)
                _log.info("agents.ended", node=agent.node)
            return
        except (DatabaseUnreachable, RefusedByModel) as missed:
            _log.warning("agents.beat_missed", node=agent.node, error=str(missed))
            after = Next(self._pace.again_every.total_seconds())
        finally:
            self._slots.release()
        self._plan(agent, after.interval)

    async def _claim(self, agent: Agent, tasks: TaskGroup) -> None:
        task = await self._client.claim(agent, _TYPES, self._pace.task_lease)
        if task is not None:
            tasks.start_soon(self._work, agent, task)

    async def _work(self, agent: Agent, task: Task) -> None:
        """Do one task and renew its lease meanwhile. If the lease is lost, stop the task."""
        remaining = self._pace.task_takes.total_seconds() * random.uniform(0.5, 1.5)
        renew_every = self._pace.task_lease.total_seconds() / 3
        try:
            while remaining > renew_every:
                await anyio.sleep(renew_every)
                remaining -= renew_every
                await self._client.renew(agent, task, self._pace.task_lease)
            await anyio.sleep(remaining)
            if not self.is_silent(agent.node):  # a failed machine reports nothing, and its lease expires
                await self._client.finish(
                    agent, task, result="simulated", evidence=evidence_of(self._facts[agent.node], task.type)
                )
        except (DatabaseUnreachable, RefusedByModel) as lost:
            _log.warning("agents.task_lost", task=task.id, node=agent.node, error=str(lost))
