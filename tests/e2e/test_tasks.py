"""The task pages of operators: their commands run, in the order of each page, on a simulated fleet with BMCs, a MAAS
region and agents, and lead to what the pages promise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec
import pytest

from farrier.cli.service.simulation import DemoOptions, Scene, running
from farrier.io.connections.embedded import wheel_binaries
from farrier.sim.fleet import name_of
from farrier.sim.hardware import serial_of
from tests.support import again, pages, pg
from tests.support.process import farrier

TASKS = pages.ROOT / "docs" / "operate"
NODES = 8
PATIENCE_SECONDS = 300
TOKEN = re.compile(r"fbt_[0-9a-f]+")


class Operator(msgspec.Struct, frozen=True):
    """An operator who follows the pages in a shell."""

    scene: Scene
    directory: Path
    environment: Mapping[str, str]
    read: set[tuple[str, str]]

    async def reads(self, page: str, node: int, *blocks: str) -> str:
        """Type these blocks of a page, with the names and addresses of a node of the fleet. Returns the output."""
        said = ""
        for block in blocks:
            said += await self.types(await self.here(shown(page)[block], node))
            self.read.add((page, block))
        return said

    async def here(self, text: str, node: int) -> str:
        """The lines of a page with the names and addresses of a node of this fleet."""
        bmc, system = self.scene.bmc, self.scene.bmc.systems[node - 1]
        text = text.replace("m4ch1n", await self.machine(node))
        text = re.sub(r"\bgpu-017\b(?!\.json)", name_of(node), text.replace("/bmc/gpu-017", "/bmc/rack8"))
        text = re.sub(r"https://10\.[\d.]+", bmc.addresses[system.uuid], text)
        text = re.sub(r"\bfra1\b", "demo-1", re.sub(r"\b(02|aa)(:[\da-f]{2}){5}", system.mac, text))
        return text.replace("/etc/farrier/bmc/rack8", str(bmc.credential_file))

    async def machine(self, node: int) -> str:
        """The ID of the node's machine in MAAS."""
        async with pg.Database(self.scene.serving.dsn).connect() as conn:
            return str(await conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE name = $1", name_of(node)))

    async def types(self, lines: str) -> str:
        with anyio.fail_after(PATIENCE_SECONDS):
            done = await anyio.run_process(
                ["bash", "-euo", "pipefail", "-c", lines],
                env=self.environment,
                cwd=self.directory,
                check=False,
                stderr=subprocess.STDOUT,
            )
        assert done.returncode == 0, f"{lines}\n{done.stdout.decode()}"
        return done.stdout.decode()

    async def finds(self, query: str, *values: object) -> None:
        """Return once the query returns true."""
        async with pg.Database(self.scene.serving.dsn).connect() as conn:
            with anyio.fail_after(PATIENCE_SECONDS):
                while not await conn.fetchval(query, *values):
                    await again.later()

    async def has(self, node: int | str, status: str) -> None:
        name = node if isinstance(node, str) else name_of(node)
        await self.finds("SELECT status = $2 FROM farrier.nodes WHERE name = $1 ORDER BY id DESC LIMIT 1", name, status)


def shown(page: str) -> dict[str, str]:
    """The named blocks of a page."""
    found = pages.blocks(TASKS / f"{page}.md")
    return {block.marker.removeprefix("sh: "): block.text for block in found if block.marker.startswith("sh: ")}


@asynccontextmanager
async def at_work(directory: Path) -> AsyncIterator[Operator]:
    """An operator of a fleet that is in service."""
    options = DemoOptions(
        directory=directory / "fleet",
        nodes=NODES,
        until_active=True,
        timeout=timedelta(minutes=5),
        faults=False,
        http_port=0,
        speed=600,
    )
    options.directory.mkdir()
    programs = directory / "bin"
    programs.mkdir()
    (programs / "farrier").write_text(f'#!/bin/sh\nexec {sys.executable} -m farrier "$@"\n')
    (programs / "farrier").chmod(0o755)
    async with running(options) as scene, anyio.create_task_group() as arriving:
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(pages.ROOT),
            "HOME": str(directory),
            "FARRIER_CONFIG": str(scene.settings),
        }
        operator = Operator(scene, directory, environment, read=set())
        arriving.start_soon(scene.fleet.arrive, timedelta(0))
        await operator.finds(f"SELECT count(*) = {NODES} FROM farrier.nodes WHERE status = 'active'")
        yield operator
        arriving.cancel_scope.cancel()


@pytest.mark.full
@pytest.mark.timeout(1500)
async def test_the_task_pages_lead_to_what_they_promise() -> None:
    """Run outside of pytest's directory, which the account of the PostgreSQL server of root may not enter."""
    with tempfile.TemporaryDirectory(prefix="farrier-tasks-") as name:
        await follows_the_pages(Path(name))


async def follows_the_pages(directory: Path) -> None:
    async with at_work(directory) as operator:
        # Each page has a node of its own, and most of its time passes while machines work.
        async with anyio.create_task_group() as together:
            for follow, node in PAGES.items():
                together.start_soon(follow, operator, node)
        await restores(operator, 1)
        followed = {page for page, _ in operator.read}
        assert operator.read == {(page, block) for page in followed for block in shown(page)}


async def drains_and_returns(operator: Operator, node: int) -> None:
    await operator.reads("drain", node, "drain")
    await operator.has(node, "retired")
    await operator.reads("drain", node, "return")
    await operator.has(node, "active")
    await operator.reads("drain", node, "hold")
    await operator.has(node, "active")


async def swaps_a_gpu(operator: Operator, node: int) -> None:
    await operator.reads("swap-gpu", node, "hold")
    await operator.has(node, "retired")
    await operator.reads("swap-gpu", node, "off", "on")
    said = await operator.reads("swap-gpu", node, "validate")
    assert "scrub_gpu" in said
    await operator.has(node, "quarantined")
    await operator.reads("swap-gpu", node, "release")
    await operator.has(node, "active")


async def replaces_a_bmc(operator: Operator, node: int) -> None:
    verified = """
        SELECT management = 'manageable' AND status = 'active' AND bmc ->> 'uuid' IS NOT NULL
          FROM farrier.nodes WHERE name = $1
    """
    for block in ("replace", "machine"):
        await operator.reads("replace-bmc", node, block)
        await operator.finds(verified, name_of(node))


async def reimages(operator: Operator, node: int) -> None:
    await operator.reads("reimage", node, "reimage")
    await operator.has(node, "active")


async def decommissions(operator: Operator, node: int) -> None:
    await operator.reads("decommission", node, "decommission")
    await operator.has(node, "deleted")


async def onboards_a_rack(operator: Operator, node: int) -> None:
    """Onboard the rack that the demo leaves to its user, whose list has the columns of the page's."""
    (table,) = [block.text for block in pages.blocks(TASKS / "onboard.md") if block.language == "csv"]
    rack = operator.scene.rack.read_text(encoding="utf-8").splitlines()
    assert rack[0] == table.splitlines()[0]
    (operator.directory / "rack8.csv").write_text("\n".join(rack) + "\n")
    await operator.reads("onboard", node, "register", "verify")
    manageable = "SELECT count(*) = 2 FROM farrier.nodes WHERE name LIKE 'rack8-%' AND management = 'manageable'"
    await operator.finds(manageable)
    await operator.reads("onboard", node, "onboard")
    for name in ("rack8-1", "rack8-2"):
        await operator.has(name, "active")


async def renames(operator: Operator, node: int) -> None:
    await operator.reads("rename", node, "remove")
    await operator.has(node, "deleted")
    said = await operator.reads("rename", node, "add")
    await operator.reads("rename", node, "adopt")
    await operator.scene.agents.enroll(TOKEN.findall(said)[0], serial_of(operator.scene.bmc.systems[node - 1].mac))
    await operator.has("r7-gpu-17", "active")
    adopted = """
        SELECT bool_and(o.mode = 'adopt') FROM farrier.node_onboardings o JOIN farrier.nodes n ON n.id = o.node_id
         WHERE n.name = 'r7-gpu-17'
    """
    await operator.finds(adopted)


async def restores(operator: Operator, node: int) -> None:
    """Restore a backup beside the fleet, and run a second controller on the copy, which holds each node."""
    own = operator.scene.serving.dsn
    new = own.replace("/farrier?", "/restored?")
    programs = f"export NEW='{new}' PATH={wheel_binaries()}:$PATH"
    await operator.types(
        f"{programs}; psql -d '{own}' -c 'CREATE DATABASE restored'; pg_dump -Fc -f farrier.dump '{own}'"
    )
    await operator.types(f"{programs}; {shown('restore')['restore']}")
    holds, everything, one = shown("restore")["lift"].strip().splitlines()
    on_the_copy = f"export FARRIER_DATABASE_DSN='{new}';"
    async with farrier("run", "--config", str(operator.scene.settings), "--dsn", new) as controller:
        await controller.until("daemon.ready")
        await operator.types(f"{on_the_copy} until {holds} | grep {name_of(node)}; do sleep 0.1; done")
        await operator.types(f"{on_the_copy} {await operator.here(one, node)}")
        said = await operator.types(f"{on_the_copy} {everything} || [ $? = 3 ]")
        controller.send(signal.SIGTERM)
        assert await controller.ended() == 0
    assert "lifted" in said
    operator.read.update({("restore", "restore"), ("restore", "lift")})


async def adopts(operator: Operator, node: int) -> None:
    """Adopt the machine of a node that was removed, which runs on."""
    name = name_of(node)
    await operator.types(f"farrier node drain {name} --until retired && farrier node remove {name} --until deleted")
    await operator.reads("adopt", node, "add")
    await operator.finds(
        "SELECT bool_or(management = 'manageable' AND status <> 'deleted') FROM farrier.nodes WHERE name = $1", name
    )
    await operator.reads("adopt", node, "adopt")
    await operator.has(node, "active")


PAGES = {
    drains_and_returns: 1,
    swaps_a_gpu: 2,
    replaces_a_bmc: 3,
    reimages: 4,
    onboards_a_rack: 5,
    decommissions: 6,
    renames: 7,
    adopts: 8,
}
