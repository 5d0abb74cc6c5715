"""A client of the agents' API for many simulated agents, which share a few connections to one server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import msgspec
from typing_extensions import override

from farrier.errors import DatabaseUnreachable, RefusedByModel

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
