"""A site for the steps of the provider: the demo's fleet with daemon and region, and a server with a token."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec

from farrier.children import LOGINS, as_login
from farrier.cli.service.simulation import DATABASE, DemoOptions, Scene, running
from farrier.io.connections.embedded import EmbeddedServer
from farrier.model.loop.doors import DoorKind
from tests.acceptance.api import Object
from tests.support import pages, pg
from tests.support.process import farrier, until

_NODES = 8
_SPEED = 600.0  # the fastest: a deployment takes seconds
_ARRIVES_WITHIN = 120.0  # seconds

MACHINE = "gpu-0001"
SILENT = "gpu-0002"
RETURNED = "gpu-0003"
IN_RACK = ("gpu-0004", "gpu-0006")
REPLACED = "gpu-0007"
RACK = "r9"
SEGMENT = "acceptance"

TARGETS: Mapping[str, str] = {
    "launch_instance": MACHINE,
    "verify_tags": MACHINE,
    "verify_image": MACHINE,
    "stop_instance": MACHINE,
    "start_instance": MACHINE,
    "reboot_instance": MACHINE,
    "power_cycle_instance": MACHINE,
    "reinstall_instance": MACHINE,
    "return_node_maintenance": RETURNED,
    "return_rack_maintenance": RACK,
    "request_host_replacement": REPLACED,
    "query_failure_notifications": SILENT,
}
"""The node or the rack of each step that has one."""


def target(step: str) -> list[str]:
    """The arguments of a step."""
    return [TARGETS[step]] if step in TARGETS else []


class Site(msgspec.Struct, frozen=True):
    """The running site. `environment` is that of the provider's steps."""

    scene: Scene
    environment: Mapping[str, str]

    async def do(self, step: str, *arguments: str) -> Object:
        """Run a step as the suite runs it: a program that prints JSON."""
        done = await anyio.run_process(
            [sys.executable, "-m", "tests.acceptance", step, *arguments],
            env={**os.environ, **self.environment},
            cwd=pages.ROOT,
            check=False,
        )
        assert done.stdout, done.stderr.decode()
        answer: Object = json.loads(done.stdout)
        return answer


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Site]:
    """A site whose nodes are in service, with two nodes in a rack of their own, and an address for each node."""
    options = DemoOptions(
        directory=directory,
        nodes=_NODES,
        until_active=False,
        timeout=timedelta(0),
        faults=False,
        http_port=0,
        speed=_SPEED,
    )
    async with running(options) as scene, anyio.create_task_group() as living:
        living.start_soon(scene.fleet.arrive, timedelta(0))
        await until(lambda: _have_arrived(scene), patience=_ARRIVES_WITHIN)
        await _prepare(EmbeddedServer(directory / DATABASE).dsn)
        async with _server(directory) as environment:
            yield Site(scene, environment)
        living.cancel_scope.cancel()


async def _have_arrived(scene: Scene) -> bool:
    nodes = await scene.fleet.glance()
    return len(nodes) == _NODES and all(node.arrived for node in nodes)


async def _prepare(dsn: str) -> None:
    """Do what the programs of a site do beside the provider: networks give each node an address; racks have nodes."""
    async with pg.Database(dsn).connect() as conn:
        for name in IN_RACK:
            await conn.execute(
                "INSERT INTO farrier.intents (node, action, params, requested_by, api_version) "
                "VALUES ($1, 'set', jsonb_build_object('rack', $2::text), 'an operator', 2)",
                name,
                RACK,
            )
        site = await conn.fetchval("SELECT min(site) FROM farrier.nodes")
        await conn.execute(
            "INSERT INTO farrier.resource_intents (kind, resource, action, params, requested_by) "
            "VALUES ('network_segment', $1, 'create', "
            "        jsonb_build_object('site', $2::text, 'prefixes', jsonb_build_array('10.9.0.0/24')), 'networks')",
            SEGMENT,
            site,
        )

        async def is_ready() -> bool:
            rows = await conn.fetchval(
                "SELECT (SELECT state = 'ready' FROM farrier.network_segments WHERE name = $1)"
                "   AND (SELECT count(*) FROM farrier.nodes WHERE rack = $2) = $3",
                SEGMENT,
                RACK,
                len(IN_RACK),
            )
            return bool(rows)

        await until(is_ready)
        await conn.execute(
            "SELECT farrier.allocate_address($1, n.name, node => n.id) FROM farrier.nodes n ORDER BY n.id", SEGMENT
        )


@asynccontextmanager
async def _server(directory: Path) -> AsyncIterator[Mapping[str, str]]:
    """A server of the HTTP API whose only client is the provider, and the environment of the provider."""
    file = directory / "tokens.toml"
    arguments = ("token", "create", "acceptance", "--scope", "read", "--scope", "intent", "--file", str(file))
    async with farrier(*arguments) as created:
        assert await created.ended() == 0, created.logged
    dsn = as_login(EmbeddedServer(directory / DATABASE).dsn, LOGINS[DoorKind.PAGES])
    settings = {"FARRIER_HTTP_TOKENS_FILE": str(file)}
    async with farrier("serve", "--dsn", dsn, "--port", "0", environment=settings) as server:
        await server.until("server.ready")
        url = (await server.until("http.listening"))["url"]
        yield {"FARRIER_API": url, "FARRIER_API_TOKEN": created.printed.strip()}
