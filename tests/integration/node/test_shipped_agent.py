"""The agent that farrier ships, as a program, against the server for agents and the loop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from farrier import agent as shipped
from tests.support.again import later
from tests.support.agent_machine import Machine as Host
from tests.support.door import Door, door_on, door_pool, registered
from tests.support.site import Machine, Site

SIZE = 1 << 20


@pytest.fixture
async def door(site: Site) -> AsyncIterator[Door]:
    async with door_pool(site.db) as connections, door_on(connections) as opened:
        yield opened


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with one disk besides that of its system."""
    root = tmp_path / "host"
    root.mkdir()
    made = Host(root, shipped.PATH, sys.executable)
    made.disk("sdb", "DISK-1", b"a tenant's data".ljust(SIZE, b"\xa5"))
    return made


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[str]]]:
    """Agents that end with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


async def reached(machine: Machine, status: str) -> None:
    """Wait until the node has this status."""
    while (await machine.state())[0] != status:
        await machine.site.settled()
        await later()


async def test_the_shipped_agent_enrols_reports_drains_and_erases_with_evidence(
    site: Site, door: Door, host: Host, running: list[subprocess.Popen[str]]
) -> None:
    machine, token = await registered(site)
    host.configure(door.url, token, cleaning_by="agent")
    running.append(host.start())
    await reached(machine, "active")

    await machine.asked("decommission", mode="storage_cleanup", reason="test")
    # A changed condition is reported at once, and not after the 30 s of an active node.
    note = {"id": "fan", "message": "it is loud", "effect": "note"}
    host.write("/run/farrier-agent/conditions.d/fans.json", json.dumps({"conditions": [note]}))
    await reached(machine, "draining")
    await reached(machine, "retired")
    while (await machine.state())[1] != "completed":
        await site.settled()
        await later()

    assert host.path("/dev/sdb").read_bytes() == bytes(SIZE)
    facts = json.loads(await site.conn.fetchval("SELECT facts FROM farrier.node_agents"))
    assert (facts["serial"], facts["disks"][0]["serial"]) == ("SN-4711", "DISK-1")
    tasks = await site.conn.fetch("SELECT type, status, evidence FROM farrier.node_tasks ORDER BY id")
    assert [(each["type"], each["status"]) for each in tasks] == [
        ("node.drain", "succeeded"),
        ("node.cleanup_storage", "succeeded"),
        ("node.validate_clean", "succeeded"),
    ]
    (device,) = json.loads(tasks[1]["evidence"])["devices"]
    assert (device["serial"], device["result"], device.get("bad_samples", 0)) == ("DISK-1", "erased", 0)
    assert device["samples"] > 0


async def test_a_condition_of_another_monitor_takes_the_node_out_of_service(
    site: Site, door: Door, host: Host, running: list[subprocess.Popen[str]]
) -> None:
    machine, token = await registered(site)
    fan = {"id": "fan", "target": "3", "message": "it stands still", "effect": "quarantine"}
    host.configure(door.url, token)
    running.append(host.start())
    await reached(machine, "active")

    host.write("/run/farrier-agent/conditions.d/bmc.json", json.dumps({"conditions": [fan]}))

    await reached(machine, "quarantined")
    assert (await machine.conditions())["agent/bmc/fan"] == "quarantine"
