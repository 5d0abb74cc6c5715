"""Runs a real `farrier serve --agents` as a separate process, and calls it as agents do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench import daemon
from bench.ground import Ground
from farrier.sim.door import AgentsClient, agents_client

# Any free port.
_ADDRESS = {"FARRIER_AGENTS_PORT": "0"}


@asynccontextmanager
async def serving(
    ground: Ground, settings: Mapping[str, str] | None = None, *, program: Sequence[str] = ("farrier",)
) -> AsyncIterator[daemon.Running]:
    """Run a server for agents, or another `program` that takes the same arguments, with these settings."""
    command = (*program, "serve", "--agents")
    async with daemon.process(command, ground.dsn, {**_ADDRESS, **(settings or {})}) as running:
        yield running


@asynccontextmanager
async def pages(ground: Ground) -> AsyncIterator[daemon.Running]:
    """Run a server for the pages and the API."""
    async with daemon.process(("farrier", "serve"), ground.dsn, {"FARRIER_HTTP_PORT": "0"}) as running:
        yield running


@asynccontextmanager
async def client(ground: Ground) -> AsyncIterator[AgentsClient]:
    """Run a server for agents, and open connections to it."""
    async with serving(ground) as running, agents_client(running.url) as opened:
        yield opened
