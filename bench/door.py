"""Runs a real `farrier serve --agents` as a separate process, and calls it as agents do."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench import daemon
from bench.agent_calls import Server
from bench.ground import Ground
from farrier.sim.agents import AgentsClient, agents_client
from farrier.sim.certificates import Authority

# Any free port.
_ADDRESS = {"FARRIER_AGENTS_PORT": "0"}


class OverTls(msgspec.Struct, frozen=True):
    """A running server for agents, its address, and the file of the CA that its clients trust."""

    process: daemon.Running
    at: Server
    ca: Path


@asynccontextmanager
async def serving(
    ground: Ground, settings: Mapping[str, str] | None = None, *, program: Sequence[str] = ("farrier",)
) -> AsyncIterator[daemon.Running]:
    """Run a server for agents, or another `program` that takes the same arguments, with these settings."""
    command = (*program, "serve", "--agents")
    async with daemon.process(command, ground.dsn, {**_ADDRESS, **(settings or {})}) as running:
        yield running


@asynccontextmanager
async def over_tls(ground: Ground, program: Sequence[str] = ("farrier",)) -> AsyncIterator[OverTls]:
    """Run a server for agents with TLS."""
    with tempfile.TemporaryDirectory(prefix="farrier-agents-") as directory:
        authority = Authority("bench", now=datetime.now(UTC))
        files = authority.issue(Path(directory), hosts=("localhost", "127.0.0.1"))
        ca = authority.write(Path(directory) / "ca.pem")
        settings = {
            "FARRIER_AGENTS_TLS_CERT": str(files.certificate),
            "FARRIER_AGENTS_TLS_KEY": str(files.key),
        }
        async with serving(ground, settings, program=program) as process:
            at = urlsplit(process.url)
            assert at.hostname is not None and at.port is not None, "the URL has an address"
            server = Server(at.hostname, at.port, ssl.create_default_context(cafile=ca))
            yield OverTls(process, server, ca)


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
