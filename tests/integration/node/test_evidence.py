"""The evidence of a cleaning in the database: what a machine should have, what was proven, and what is forgotten."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from farrier.config.sites import CleaningSite
from farrier.model.node.evidence import Require
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import ADMIN, Region, Status
from farrier.sim.maas.records import Disk
from farrier.sim.maas.records import Machine as Simulated
from tests.support import pg
from tests.support.site import Machine, Site, opened
from tests.support.stages import SITE

FINISH = "SELECT farrier.finish_task($1, $2, $3, $4, true, NULL, $5::jsonb)"
FACTS = "UPDATE farrier.node_agents SET facts = $2 WHERE node_id = $1"
EXPECTED = "SELECT farrier.expected_devices($1, (SELECT n.maas_id FROM farrier.nodes n WHERE n.id = $1))"
GPU = {"kind": "gpu", "serial": "G1", "result": "erased"}
KNOWN = {"gpus": [{"serial": "G1"}, {"serial": "", "uuid": "GPU-2"}], "disks": [{"serial": "OF-THE-AGENT"}]}
REQUIRES = msgspec.structs.replace(SITE, cleaning=CleaningSite(require=Require.EVIDENCE))


async def erase(machine: Machine, type_: TaskType, *devices: dict[str, Any] | None) -> None:
    """End a task, with evidence about these devices, or (None) without evidence."""
    lease = await machine.claim(type_)
    assert lease is not None
    told = None if devices == (None,) else json.dumps({"by": "agent", "devices": devices})
    await machine.site.conn.execute(FINISH, machine.name, lease.task, lease.token, machine.key, told)
    await machine.site.settled()


async def reset(machine: Machine, *devices: dict[str, Any] | None) -> None:
    """Reset the node, and end the scrub of its GPUs with this evidence."""
    await machine.asked("decommission", mode="soft_reset")
    await machine.finish(TaskType.RELEASE_ALLOCATIONS)
    await machine.finish(TaskType.DRAIN)
    await erase(machine, TaskType.SCRUB_GPU, *devices)


async def expected(machine: Machine) -> Any:
    return json.loads(await machine.site.conn.fetchval(EXPECTED, machine.id))


async def cleaned(machine: Machine) -> Any:
    return json.loads(await machine.site.conn.fetchval("SELECT cleaned FROM farrier.nodes WHERE id = $1", machine.id))


@pytest.fixture
async def strict(db: pg.Database) -> AsyncIterator[Site]:
    """A site that requires evidence. Its region knows one machine."""
    region = Region()
    region.keep(
        Simulated(
            system_id="abc123",
            hostname="gpu-1",
            status=Status.DEPLOYED,
            owner=ADMIN.username,
            osystem="ubuntu",
            power_type="redfish",
            power_state="on",
            disks=[Disk(id=1, name="sda", model="M", id_path="/dev/sda", size=10**9, serial="OF-MAAS")],
        )
    )
    async with opened(db, region=region, config=REQUIRES) as site:
        yield site


async def in_service(site: Site, **details: Any) -> Machine:
    machine = await (await (await site.register(bootstrap_token="token", **details)).enroll("token")).beat()
    await site.conn.execute(FACTS, machine.id, json.dumps(KNOWN))
    assert (await machine.state())[0] == "active"
    return machine


async def test_disks_are_expected_as_maas_knows_them_and_gpus_as_the_agent_reported_them(strict: Site) -> None:
    machine = await in_service(strict, maas_id="abc123")
    gpus = [{"serial": "G1", "size": 0}, {"serial": "GPU-2", "size": 0}]
    assert await expected(machine) == {"disks": [{"serial": "OF-MAAS", "size": 10**9}], "gpus": gpus}


async def test_without_a_machine_in_maas_the_facts_of_the_agent_are_expected(site: Site) -> None:
    machine = await in_service(site)
    assert (await expected(machine))["disks"] == [{"serial": "OF-THE-AGENT", "size": 0}]
    for facts in ("{}", '{"disks": 7, "gpus": "none"}'):
        await site.conn.execute(FACTS, machine.id, facts)
        assert await expected(machine) == {}


async def test_a_scrub_without_evidence_returns_the_node_with_a_note_that_a_proven_one_ends(site: Site) -> None:
    machine = await in_service(site)
    for devices, conditions in (((None,), {"cleaning/unproven": "note"}), ((GPU, {**GPU, "serial": "GPU-2"}), {})):
        await reset(machine, *devices)
        await machine.finish(TaskType.VALIDATE_CLEAN)
        await machine.beat()
        assert ((await machine.state())[0], await machine.conditions()) == ("active", conditions)
    assert (await cleaned(machine))["by"] == "agent"


async def test_where_evidence_is_required_a_node_returns_only_with_it(strict: Site) -> None:
    machine = await in_service(strict, maas_id="abc123")
    await reset(machine, None)
    for _ in range(4):
        await erase(machine, TaskType.SCRUB_GPU, GPU)  # one of two GPUs
    assert await machine.state() == ("retired", "failed_retryable", "scrub_gpu")
    failed = await strict.conn.fetchrow("SELECT failure_class, failure_detail FROM farrier.node_decommissions")
    assert failed is not None and failed["failure_class"] == "validation_failed"
    assert "gpu GPU-2 is not in the evidence" in failed["failure_detail"]
    await machine.asked("retry_stage")
    await erase(machine, TaskType.SCRUB_GPU, GPU, {**GPU, "serial": "GPU-2"})
    await machine.finish(TaskType.VALIDATE_CLEAN)
    await machine.beat()
    assert ((await machine.state())[0], await machine.conditions()) == ("active", {})


async def test_a_node_that_was_only_drained_does_not_return_where_evidence_is_required(strict: Site) -> None:
    machine = await in_service(strict, maas_id="abc123")
    await (await machine.asked("drain")).finish(TaskType.DRAIN)
    answer = await machine.ask("reactivate")
    assert answer.status == "rejected" and "the node must be cleaned first" in (answer.reason or "")
    answer = await machine.ask("decommission", mode="storage_cleanup")
    assert answer.status == "rejected" and "cleaning.require of site north is evidence" in (answer.reason or "")


async def deleted(machine: Machine) -> None:
    await machine.asked("remove")
    await machine.finish(TaskType.UNINSTALL)
    assert (await machine.state())[0] == "deleted"


async def test_a_deleted_node_has_no_evidence_and_no_known_disks(strict: Site) -> None:
    machine = await in_service(strict, maas_id="abc123")
    await reset(machine, GPU)
    await machine.asked("cancel")
    await deleted(machine)
    assert not await strict.conn.fetchval("SELECT count(evidence) FROM farrier.node_tasks")
    assert not await strict.conn.fetchval("SELECT count(*) FROM farrier.machine_disks")


async def test_a_deleted_node_has_no_verdicts_because_they_quote_serial_numbers(site: Site) -> None:
    machine = await in_service(site)
    await reset(machine, GPU)
    await machine.finish(TaskType.VALIDATE_CLEAN)
    memos = "SELECT string_agg(memo::text, '') FROM farrier.node_decommissions"
    assert "gpu GPU-2 is not in the evidence" in await site.conn.fetchval(memos)
    await (await machine.asked("drain")).finish(TaskType.DRAIN)
    await deleted(machine)
    assert "GPU-2" not in await site.conn.fetchval(memos)
