"""Nodes find, make and commission their machines in a simulated region, with a real database, loop and observer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.sim.maas import Nature, Region, Status
from farrier.sim.maas.hardware import CommissionFate
from farrier.sim.maas.records import Machine, ScriptSet, ScriptStatus, SetType
from tests.support import pg
from tests.support.fake_bmc import READING
from tests.support.site import Site, opened

MAC = "52:54:00:00:00:01"
A_WHILE = timedelta(minutes=3)
MOST_WAITS = 60


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    async with opened(db, region=Region()) as site:
        yield site


def has_ready(region: Region, hostname: str, **power: str) -> Machine:
    """A machine that is ready, and that can be found only by its name and its serial number."""
    machine = Machine(
        system_id=region.next_system_id(),
        hostname=hostname,
        status=Status.READY,
        power_type="redfish",
        power_parameters=power,
        hardware_info={"system_serial": READING.serial or ""},
    )
    machine.script_sets.append(
        ScriptSet(
            id=1,
            result_id=1,
            type=SetType.COMMISSIONING,
            name="maas-lshw",
            status=ScriptStatus.PASSED,
            created=region.now,
        )
    )
    region.keep(machine)
    return machine


def commissionings(site: Site) -> int:
    """The number of requests to commission a machine."""
    return site.maas.observed.operations.count("commission")


async def owned(site: Site) -> dict[str, str | None]:
    """The machine of each node."""
    return {row["name"]: row["maas_id"] for row in await site.conn.fetch("SELECT name, maas_id FROM farrier.nodes")}


async def test_a_machine_is_created_for_a_node_and_commissioned(site: Site) -> None:
    machine = await (await site.with_bmc(macs=[MAC])).asked("onboard", mode="deploy")
    (made,) = site.maas.region.machines.values()
    assert (await owned(site))[machine.name] == made.system_id
    assert made.status is Status.COMMISSIONING
    for _ in range(MOST_WAITS):
        if len(path := await machine.path("onboarding_stage")) > 5:
            break
        await site.wait(A_WHILE)
    assert path[:6] == [
        "load_site_config",
        "resolve_power_credentials",
        "create_or_find_in_maas",
        "commission_node",
        "wait_for_ready",
        "configure_storage",
    ]
    assert site.maas.observed.operations.count("create") == commissionings(site) == 1


async def test_a_machine_that_two_nodes_find_is_assigned_to_only_one_of_them(site: Site) -> None:
    """The BMC is given by a name and cannot be compared, so only the database can refuse the second node."""
    found = has_ready(site.maas.region, "gpu-7", power_address="bmc-7.example", power_user="admin", power_pass="secret")
    # MAAS has no manufacturer, so it does not distinguish equal serial numbers of two manufacturers.
    site.bmc.script = site.bmc.read_script = lambda target: replace(READING, uuid=None, manufacturer=target.address)
    one, other = await site.with_bmc("gpu-7.a"), await site.with_bmc("gpu-7.b")
    await one.asked("onboard", mode="deploy")
    assert (await owned(site)) == {"gpu-7.a": found.system_id, "gpu-7.b": None}
    await other.asked("onboard", mode="deploy")
    assert (await owned(site))["gpu-7.b"] is None
    assert await other.state() == ("quarantined", "failed_manual_intervention", "create_or_find_in_maas")
    assert (await other.look())["failure_class"] == "discovery_conflict"
    detail = await site.conn.fetchval(
        "SELECT failure_detail FROM farrier.node_onboardings WHERE node_id = $1", other.id
    )
    assert "gpu-7.a" in detail and found.system_id in detail


async def test_after_five_failed_commissionings_the_onboarding_waits_for_an_operator(site: Site) -> None:
    site.maas.region.default_nature = Nature(commission=CommissionFate.SCRIPT_FAILS)
    machine = await (await site.with_bmc(macs=[MAC])).asked("onboard", mode="deploy")
    for _ in range(MOST_WAITS):
        if (await machine.state())[1] == "failed_manual_intervention":
            break
        await site.wait(A_WHILE)
    assert await machine.state() == ("enrolling", "failed_manual_intervention", "wait_for_ready")
    assert commissionings(site) == 5
    await machine.asked("retry_stage")
    for _ in range(MOST_WAITS):
        if commissionings(site) > 5:
            break
        await site.wait(A_WHILE)
    assert (await machine.state())[1] in ("running", "failed_retryable"), "a retry allows five more attempts"
    assert commissionings(site) > 5
