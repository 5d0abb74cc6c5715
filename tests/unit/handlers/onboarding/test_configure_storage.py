"""Stage `configure_storage`: sets boot disk and layout on the right disk, once, and never changes another disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from farrier.config.sites import Layout, StorageSite
from farrier.handlers.node.changes import StageStep, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, DiskModel, Fault, Hardware, Nature, Status
from farrier.sim.maas.components import lay_out
from farrier.sim.maas.hardware import boss, nvme
from farrier.sim.maas.records import Machine
from tests.support.maas import COMMISSION
from tests.support.machines import created
from tests.support.stages import Stand, done, failed, open_stand

STAGE = OnboardingStage.CONFIGURE_STORAGE
MUTATIONS = {"set_boot_disk", "set_storage_layout"}
AGAIN = timedelta(minutes=1)


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    async with open_stand() as stand:
        yield stand


async def ready(at: Stand, *disks: DiskModel) -> Machine:
    """Put the node at the stage, with a commissioned machine that has these disks."""
    hardware = Hardware(disks=disks or (nvme(0), nvme(1), boss()))
    at.region.natures[at.node.name] = Nature(hardware=hardware)
    machine = await created(at)
    await at.world.client.do(await at.world.client.machine(machine.system_id), COMMISSION)
    at.region.advance(timedelta(hours=1))
    assert machine.status is Status.READY
    begin(at)
    return machine


def begin(at: Stand) -> None:
    at.onboards(STAGE)
    at.world.observed.requests.clear()


def changes(at: Stand) -> list[str]:
    return [operation for operation in at.world.observed.operations if operation in MUTATIONS]


def wants(at: Stand, layout: Layout, **fields: int) -> None:
    at.use(storage=StorageSite(layout=layout, root_size_gb=fields.get("root_size_gb")))


def root(machine: Machine) -> list[str]:
    """The disks on which the root file system lies, also by way of RAIDs and volume groups."""
    return [disk.name for disk in machine.disks if disk.partition is not None]


# --- the goal


async def test_two_changes_make_the_boss_disk_the_boot_disk_with_the_root_file_system(at: Stand) -> None:
    machine = await ready(at)
    assert root(machine) == ["nvme0n1"], "commissioning left this layout"
    await done(at)
    assert changes(at) == ["set_boot_disk", "set_storage_layout"]
    assert root(machine) == ["sda"]


async def test_each_run_sends_at_most_one_change(at: Stand) -> None:
    await ready(at)
    for expected in (1, 2):
        assert isinstance(await at.once(), StageStep)
        assert len(changes(at)) == expected


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("disks", [(nvme(0), boss()), (boss(),)], ids=["two", "one"])
async def test_a_second_run_of_the_stage_sends_no_change(
    at: Stand, layout: Layout, disks: tuple[DiskModel, ...]
) -> None:
    machine = await ready(at, *disks)
    wants(at, layout)
    await done(at)
    before = [(disk.id, disk.partition) for disk in machine.disks]
    at.world.observed.requests.clear()
    await done(at)
    assert changes(at) == []
    assert [(disk.id, disk.partition) for disk in machine.disks] == before


@pytest.mark.parametrize("layout", [Layout.FLAT, Layout.LVM, Layout.BCACHE, Layout.BLANK])
async def test_a_layout_that_a_person_made_is_recognised(at: Stand, layout: Layout) -> None:
    machine = await ready(at)
    machine.boot_disk_id = machine.disks[-1].id
    lay_out(at.region, machine, layout=layout.value)
    wants(at, layout)
    await done(at)
    assert changes(at) == []


async def test_a_layout_other_than_the_configured_one_is_replaced(at: Stand) -> None:
    machine = await ready(at)
    machine.boot_disk_id = machine.disks[-1].id
    lay_out(at.region, machine, layout="flat")
    wants(at, Layout.LVM)
    await done(at)
    assert changes(at) == ["set_storage_layout"]
    assert [disk.name for disk in machine.disks if disk.is_virtual] == ["vgroot-lvroot"]


async def test_a_custom_layout_is_applied_again_when_the_stage_is_entered_again(at: Stand) -> None:
    """The note about a custom layout is valid only for one entry of the stage, because the machine may have been
    commissioned since."""
    await ready(at)
    wants(at, Layout.CUSTOM)
    await done(at)
    at.pass_time(AGAIN)
    assert at.node.workflow is not None
    at.onboards(STAGE, memo=at.node.workflow.memo)
    await done(at)
    assert changes(at) == ["set_boot_disk", "set_storage_layout", "set_storage_layout"]


async def test_the_root_file_system_has_the_size_that_the_site_configures(at: Stand) -> None:
    machine = await ready(at)
    wants(at, Layout.FLAT, root_size_gb=100)
    await done(at)
    (partition,) = [disk.partition for disk in machine.disks if disk.partition]
    assert abs(partition.size - 100 * 10**9) < 8 << 20
    wants(at, Layout.FLAT, root_size_gb=200)
    await done(at)
    assert changes(at).count("set_storage_layout") == 2, "another size is another layout"


async def test_maas_refuses_a_root_file_system_larger_than_the_disk(at: Stand) -> None:
    await ready(at)
    wants(at, Layout.FLAT, root_size_gb=10_000)
    settled = await failed(at)
    assert settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "too large" in settled.detail


# --- which disk


@pytest.mark.parametrize("model", ["DELLBOSS VD", "Dell BOSS-N1", "dell_boss-s2"])
async def test_each_generation_of_the_boss_controller_is_recognised(at: Stand, model: str) -> None:
    machine = await ready(at, nvme(0), msgspec.structs.replace(boss(), model=model, id_path="/dev/sdb"))
    await done(at)
    assert root(machine) == ["sda"]


async def test_a_boss_disk_without_a_model_is_recognised_by_its_path(at: Stand) -> None:
    machine = await ready(at, nvme(0), msgspec.structs.replace(boss(), model=""))
    await done(at)
    assert root(machine) == ["sda"]


async def test_the_site_may_name_another_disk(at: Stand) -> None:
    machine = await ready(at, nvme(0), msgspec.structs.replace(nvme(1), model="SAMSUNG MZ1L2960"))
    at.use(storage=StorageSite(boot_disk_model="samsung"))
    await done(at)
    assert root(machine) == ["nvme1n1"]


@pytest.mark.parametrize(
    ("disks", "message"),
    [
        ((nvme(0), nvme(1)), "nvme1n1 (Dell Ent NVMe CM6 RI 3.84TB)"),
        ((nvme(0), msgspec.structs.replace(boss(), model="FakeBOSS", id_path="/dev/sda")), "sda (FakeBOSS)"),
        ((boss("1"), msgspec.structs.replace(boss("2"), name="sdb")), "must match one disk; it matches 2"),
    ],
    ids=["none", "alike", "two"],
)
async def test_no_matching_disk_or_two_need_an_operator_and_nothing_is_changed(
    at: Stand, disks: tuple[DiskModel, ...], message: str
) -> None:
    await ready(at, *disks)
    settled = await failed(at)
    assert settled.failure is FailureClass.BOSS_DISK_NOT_FOUND
    assert message in settled.detail
    assert changes(at) == []


async def test_the_list_of_disks_in_the_failure_is_bounded(at: Stand) -> None:
    await ready(at, *(msgspec.structs.replace(nvme(n), model="x" * 500) for n in range(40)))
    settled = await failed(at)
    assert len(settled.detail) < 1500
    assert "and 28 more" in settled.detail


# --- failures


@pytest.mark.parametrize("op", sorted(MUTATIONS))
@pytest.mark.parametrize("layout", list(Layout))
async def test_a_change_whose_response_was_lost_is_recognised(at: Stand, op: str, layout: Layout) -> None:
    """Only a custom layout cannot be recognised: it is applied once more, with the same result."""
    machine = await ready(at)
    wants(at, layout)
    lost = at.region.faults.add(Fault(op=op, broken=Broken.DROP))
    settled = await at.settle()
    assert isinstance(settled, Waiting) and lost.struck == 1
    at.pass_time(AGAIN)
    await done(at)
    twice = op == "set_storage_layout" and layout is Layout.CUSTOM
    assert changes(at).count(op) == (2 if twice else 1)
    assert machine.boot_disk_id == machine.disks[2].id


async def test_a_change_that_maas_accepts_but_does_not_show_fails_the_attempt(at: Stand) -> None:
    """If the attempt went on, the change would be sent for ever, as fast as the region responds."""
    machine = await ready(at)
    at.region.faults.add(Fault(op="set_boot_disk", status=200, body=b"OK", content_type="text/plain", times=None))
    settled = await failed(at)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert "boot from sda" in settled.detail
    assert changes(at) == ["set_boot_disk"]
    at.region.faults.clear()
    at.pass_time(AGAIN)
    at.onboards(STAGE)
    await done(at)
    assert root(machine) == ["sda"]


async def test_a_machine_that_maas_reports_as_not_ready_is_read_again(at: Stand) -> None:
    await ready(at)
    at.region.faults.add(Fault(op="set_boot_disk", status=409, body=b"not Ready.", content_type="text/plain"))
    await at.once()
    await done(at)
    assert changes(at) == ["set_boot_disk", "set_boot_disk", "set_storage_layout"]


# --- configuration


def test_an_invalid_pattern_is_refused_when_the_configuration_is_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="not a valid regular expression"):
        msgspec.convert({"boot_disk_model": "["}, StorageSite)
