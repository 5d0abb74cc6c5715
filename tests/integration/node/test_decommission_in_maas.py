"""Decommissions of nodes in a simulated region, with a real database, loop and observer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from farrier.config.sites import Erase, ReleaseSite
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import ADMIN, Nature, Region, Status
from farrier.sim.maas.records import Machine as Simulated
from farrier.sim.maas.records import ScriptSet, ScriptStatus, SetType
from tests.support import pg
from tests.support.maas_region import put_into
from tests.support.site import Machine, Site, opened
from tests.support.stages import SITE

CLEANED = ("RELEASE_ALLOCATIONS", "DRAIN", "CLEANUP_STORAGE", "SCRUB_GPU", "VALIDATE_CLEAN")
A_WHILE = timedelta(seconds=30)
MOST_WAITS = 60
CONFIG = msgspec.structs.replace(SITE, release=ReleaseSite(erase=Erase.QUICK))


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    async with opened(db, region=Region(), config=CONFIG) as site:
        yield site


async def in_service(site: Site) -> tuple[Machine, Simulated]:
    """Return a node in service whose machine farrier deployed and a person locked."""
    region = site.maas.region
    simulated = Simulated(
        system_id=region.next_system_id(),
        hostname="gpu-1",
        status=Status.DEPLOYED,
        owner=ADMIN.username,
        osystem="ubuntu",
        locked=True,
        power_type="redfish",
        power_state="on",
    )
    passed = ScriptSet(
        id=1, result_id=1, type=SetType.COMMISSIONING, name="x", status=ScriptStatus.PASSED, created=region.now
    )
    simulated.script_sets.append(passed)
    region.keep(simulated)
    machine = await site.register(maas_id=simulated.system_id, bootstrap_token="token")
    await (await machine.enroll("token")).beat()
    assert (await machine.state())[0] == "active"
    return machine, simulated


async def cleaned(machine: Machine, mode: str) -> None:
    """Decommission the node by force, because its machine is locked, and end its tasks."""
    await machine.asked("decommission", mode=mode, force=True, reason="the lock is an old one")
    for type_ in CLEANED:
        await machine.finish(TaskType[type_])


async def until(machine: Machine, *goals: tuple[str, str | None]) -> None:
    """Let time pass until the node's status and that of its workflow are one of these pairs."""
    for _ in range(MOST_WAITS):
        if (await machine.state())[:2] in goals:
            return
        await machine.site.wait(A_WHILE)
    raise AssertionError(await machine.state())


def changes(site: Site) -> list[str]:
    return [
        operation
        for operation in site.maas.observed.operations
        if operation in ("unlock", "release", "power_off", "delete")
    ]


async def test_a_node_is_deleted_with_its_machine(site: Site) -> None:
    machine, simulated = await in_service(site)
    await cleaned(machine, "full_decommission")
    await until(machine, ("deleted", "completed"))
    assert not site.maas.region.machines
    assert changes(site) == ["unlock", "release", "delete"]
    (uninstall,) = await machine.tasks(TaskType.UNINSTALL)
    assert (uninstall["status"], uninstall["result"]) == ("cancelled", '"machine_released"')
    assert not await site.conn.fetchval("SELECT count(*) FROM farrier.node_agents")
    kept = await site.conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE id = $1", machine.id)
    assert kept == simulated.system_id, "the node keeps the id of its former machine"


async def test_a_reimage_is_followed_by_an_onboarding_of_the_same_node(site: Site) -> None:
    machine, simulated = await in_service(site)
    await cleaned(machine, "reimage")
    for _ in range(MOST_WAITS):
        if await site.conn.fetchval("SELECT count(*) FROM farrier.node_onboardings") > 1:
            break
        await site.wait(A_WHILE)
    (row,) = await site.conn.fetch("SELECT status, maas_id, redeploying FROM farrier.nodes")
    assert tuple(row) == ("retired", simulated.system_id, False)
    assert simulated.status is Status.READY and changes(site) == ["unlock", "release"]
    modes = await site.conn.fetch("SELECT mode FROM farrier.node_onboardings ORDER BY id")
    assert [mode for (mode,) in modes] == ["manual", "deploy"]
    assert await machine.path("decommission") == ["pending", "running", "completed"]


async def test_a_machine_that_an_administrator_released_is_adopted_and_the_node_is_still_cleaned(
    site: Site,
) -> None:
    machine, simulated = await in_service(site)
    await machine.asked("decommission", mode="full_decommission")
    put_into(simulated, Status.READY, owner=None, power="off", previous=Status.DEPLOYED)
    await site.wait(A_WHILE)
    await machine.asked("adopt_observed_state")
    for type_ in CLEANED:
        await machine.finish(TaskType[type_])
    await until(machine, ("deleted", "reconciled"))
    assert changes(site) == ["delete"] and not await site.conn.fetchval("SELECT count(*) FROM farrier.node_agents")
    assert await machine.path("decommission") == ["pending", "running", "reconciled"]


async def test_the_release_succeeds_after_the_bmc_was_repaired(site: Site) -> None:
    machine, simulated = await in_service(site)
    site.maas.region.natures[simulated.system_id] = Nature(bmc_error="no route")
    await cleaned(machine, "full_decommission")
    await until(machine, ("retired", "failed_retryable"))
    assert simulated.status is Status.FAILED_DISK_ERASING
    ((failure, detail),) = await site.conn.fetch("SELECT failure_class, failure_detail FROM farrier.node_decommissions")
    assert failure == "power_failed" and "through its BMC" in detail
    site.maas.region.natures.clear()
    await until(machine, ("deleted", "completed"))
    assert changes(site).count("release") >= 2 and not site.maas.region.machines
