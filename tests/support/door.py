"""A server for agents on a test's database, with the login's rights that it has in production."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, NoReturn
from uuid import uuid4

import anyio
import httpx
from starlette.responses import PlainTextResponse

from farrier.asgi import served
from farrier.io.calls.agents import PostgresAgentCalls
from farrier.io.connections.pool import Pool, open_pool
from farrier.protocols import AgentCalls, Clock
from farrier.sim.agents import AgentsClient, agents_client
from farrier.web.agents.app import AgentsApp
from farrier.web.agents.batches import Batches
from tests.support import pg, tokens
from tests.support.site import Machine, Site


class Pulse:
    """Implements `protocols.Door`; remembers whether an agent was reached."""

    def __init__(self) -> None:
        self.times = 0

    def reached(self) -> None:
        self.times += 1

    async def run(self) -> NoReturn:
        await anyio.sleep_forever()
        raise AssertionError


class Door:
    """A server for agents, with a client that keeps its connections."""

    def __init__(self, url: str, client: httpx.AsyncClient, pulse: Pulse) -> None:
        self.url = url
        self.client = client
        self.pulse = pulse

    async def send(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return await self.client.request(method, f"/agent/v1/{path}", json=body, headers=headers)


class Agent:
    """An agent on a machine, which makes its key and calls a server."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.key = f"fak_{secrets.token_hex(32)}"
        self.boot_id = str(uuid4())

    @property
    def digest(self) -> str:
        return sha256(self.key.encode()).hexdigest()

    async def enroll(self, token: str, **fields: Any) -> httpx.Response:
        body = {"token": token, "key_digest": self.digest, "version": "0.1.0", "boot_id": self.boot_id, **fields}
        return await self.door.send("POST", "enroll", body)

    async def beat(self, **fields: Any) -> httpx.Response:
        return await self.call("POST", "heartbeat", {"boot_id": self.boot_id, **fields})

    async def call(self, method: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
        return await self.door.send(method, path, body, self.key)


@asynccontextmanager
async def door_pool(db: pg.Database) -> AsyncIterator[Pool]:
    """Connections with the rights of farrier_agent alone."""
    separator = "&" if "?" in db.dsn else "?"
    opened = await open_pool(f"{db.dsn}{separator}role=farrier_agent", size=6, patience=pg.PATIENCE)
    try:
        yield opened
    finally:
        opened.terminate()


@asynccontextmanager
async def door_on(
    connections: Pool, *, clock: Clock | None = None, calls: AgentCalls | None = None
) -> AsyncIterator[Door]:
    """Serve the agents' API from this pool."""
    pulse = Pulse()
    app = AgentsApp(PlainTextResponse("ok\n"), now=clock)
    calls = calls or PostgresAgentCalls(connections)
    # The clients are in this process, so a rest of the server would stop them, too.
    batches = app.open(calls, pulse, Batches(calls, collect_seconds=0.005, sleep=lambda _: None))
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        served(app.app, listener, name="agents", http="httptools"),
        httpx.AsyncClient(base_url=url) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(batches.run)
        yield Door(url, client, pulse)
        tasks.cancel_scope.cancel()


async def registered(site: Site) -> tuple[Machine, str]:
    """A node whose onboarding waits for its agent, and its bootstrap token."""
    name = str(uuid4())
    return await site.register(bootstrap_token=name), tokens.named(name)


async def enrolled(door: Door, site: Site) -> tuple[Machine, Agent]:
    """A node, and its agent, which has enrolled and sent no heartbeat."""
    machine, token = await registered(site)
    agent = Agent(door)
    answer = await agent.enroll(token)
    assert answer.status_code == 200, answer.text
    await site.settled()
    return machine, agent


@asynccontextmanager
async def client_on(connections: Pool) -> AsyncIterator[AgentsClient]:
    """The calls of simulated agents, to a server on this pool."""
    async with door_on(connections) as door, agents_client(door.url) as client:
        yield client
