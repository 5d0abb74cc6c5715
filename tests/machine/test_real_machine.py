"""A real machine from its first power-on to its removal, by farrier, its server for agents, and its agent.

The region is simulated, the BMC is sushy-emulator, and the machine is QEMU. cloud-init gets the user data that farrier
sent to the region.
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

import msgspec
import pytest

from farrier import agent
from tests.support import pg
from tests.support.machine.image import Image
from tests.support.machine.qemu import Disk
from tests.support.machine.remains import remains
from tests.support.machine.site import Site, site

SIZE_BYTES = 32 << 20
DATA = b"a tenant's data"

POWER = "SELECT bmc ->> 'power' FROM farrier.nodes WHERE name = $1"
# (serial number, UUID) as the BMC and as the agent report them.
IDENTITY = """
    SELECT ARRAY[n.bmc ->> 'serial', n.bmc ->> 'uuid', a.facts ->> 'serial', a.facts ->> 'uuid']
      FROM farrier.nodes n JOIN farrier.node_agents a ON a.node_id = n.id WHERE n.name = $1
"""
BOOT = "SELECT boot_id FROM farrier.node_agents a JOIN farrier.nodes n ON n.id = a.node_id WHERE n.name = $1"
ENROLLED = "SELECT enrolled_at FROM farrier.node_agents a JOIN farrier.nodes n ON n.id = a.node_id WHERE n.name = $1"
WORKFLOW = "SELECT workflow_status FROM farrier.node_lifecycle WHERE name = $1"
CLEANING = """
    SELECT jsonb_build_array(t.status, t.evidence) FROM farrier.node_tasks t JOIN farrier.nodes n ON n.id = t.node_id
     WHERE n.name = $1 AND t.type = 'node.cleanup_storage' ORDER BY t.id DESC LIMIT 1
"""
CONDITIONS = """
    SELECT array_agg(c.source || '/' || c.id) FROM farrier.node_conditions c JOIN farrier.nodes n ON n.id = c.node
     WHERE n.name = $1 AND c.source = 'cleaning'
"""


def disk(directory: Path, serial: str, *, honest: bool = True) -> Disk:
    """A disk on which a tenant's data are."""
    file = directory / serial
    file.write_bytes((bytes(SIZE_BYTES // 2) + DATA).ljust(SIZE_BYTES, b"\0"))
    return Disk(serial=serial, file=file, honest=honest)


def is_erased(disk: Disk) -> bool:
    return not any(disk.file.read_bytes())


async def evidence(site: Site) -> tuple[str, dict[str, str]]:
    """The status of the newest cleaning, and what the agent says about each NVMe disk."""
    status, said = msgspec.json.decode(await site.value(CLEANING))
    return status, {each["serial"]: each["result"] for each in said["devices"] if each["serial"].startswith("NV")}


async def install(site: Site) -> None:
    """Deploy the machine, until its agent has made the node active."""
    await site.node("onboard", "--mode", "deploy", "--until", "active")
    (machine,) = site.region.machines.values()
    assert agent.sha256() in base64.b64decode(machine.user_data or "").decode()
    hardware = site.room.hardware
    assert await site.value(IDENTITY) == [hardware.serial, hardware.uuid] * 2


async def catch(site: Site, honest: Disk, liar: Disk) -> None:
    """Clean the machine. One of its disks reports success, and keeps the data."""
    await site.node("decommission", "--mode", "storage_cleanup", "--retire", "--reason", "the lease ends")
    await site.until(f"SELECT ({WORKFLOW}) = 'failed_retryable'")
    assert "site: the scheduler lets gpu-1 go" in site.room.console.printed
    assert is_erased(honest)
    assert DATA in liar.file.read_bytes()
    assert await evidence(site) == ("failed", {honest.serial: "erased", liar.serial: "failed"})
    await site.node("cancel")
    assert await site.value(CONDITIONS) == ["cleaning/not_scrubbed"]
    code, answer = await site.asked("reactivate")
    assert code, answer


async def replace(site: Site, *disks: Disk) -> None:
    """Power the machine off, replace its disks, and power it on."""
    boot, enrolled = await site.value(BOOT), await site.value(ENROLLED)
    await site.node("set-power", "--power", "off")
    await site.room.console.ends()
    assert await site.value(POWER) == "off"
    site.room.insert(*disks)
    await site.node("set-power", "--power", "on")
    await site.until(f"SELECT ({BOOT}) <> '{boot}'")
    assert await site.value(ENROLLED) == enrolled


@pytest.mark.timeout(1800)
async def test_a_machine_is_installed_cleaned_repaired_and_left(image: Image, db: pg.Database) -> None:
    with tempfile.TemporaryDirectory(prefix="farrier-machine-") as name:
        directory = Path(name)
        honest, liar, new = disk(directory, "NV-1"), disk(directory, "NV-2", honest=False), disk(directory, "NV-3")
        async with site(db, directory, image) as here:
            here.room.insert(honest, liar)
            await install(here)
            await catch(here, honest, liar)
            await replace(here, honest, new)
            await here.node("decommission", "--mode", "storage_cleanup", "--retire", "--reason", "the disk is new")
            await here.until(f"SELECT ({WORKFLOW}) = 'completed'")
            assert is_erased(new)
            assert await evidence(here) == ("succeeded", {honest.serial: "erased", new.serial: "erased"})
            await here.node("remove", "--reason", "the machine leaves", "--until", "deleted")
            await here.cut_power()
            assert "Traceback" not in here.room.console.printed
        assert not remains(here.room.hardware.system, directory / "files", "farrier")
