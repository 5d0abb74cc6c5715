"""Stage `configure_storage`: sets boot disk and layout on the right disk, once, and never changes another disk."""

from __future__ import annotations

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
from tests.support.stages import Stand, done, failed

STAGE = OnboardingStage.CONFIGURE_STORAGE
MUTATIONS = {"set_boot_disk", "set_storage_layout"}
AGAIN = timedelta(minutes=1)


async def ready(stand: Stand, *disks: DiskModel) -> Machine:
    """Put the node at the stage, with a commissioned machine that has these disks."""
    hardware = Hardware(disks=disks or (nvme(0), nvme(1), boss()))
    stand.region.natures[stand.node.name] = Nature(hardware=hardware)
    machine = await created(stand)
    await stand.world.client.do(await stand.world.client.machine(machine.system_id), COMMISSION)
    stand.region.advance(timedelta(hours=1))
    assert machine.status is Status.READY
    begin(stand)
    return machine


def begin(stand: Stand) -> None:
    stand.onboards(STAGE)
    stand.world.observed.requests.clear()


def changes(stand: Stand) -> list[str]:
    return [operation for operation in stand.world.observed.operations if operation in MUTATIONS]


def wants(stand: Stand, layout: Layout, **fields: int) -> None:
    stand.use(storage=StorageSite(layout=layout, root_size_gb=fields.get("root_size_gb")))


def root(machine: Machine) -> list[str]:
    """The disks on which the root file system lies, also by way of RAIDs and volume groups."""
    return [disk.name for disk in machine.disks if disk.partition is not None]


# --- the goal


async def test_two_changes_make_the_boss_disk_the_boot_disk_with_the_root_file_system(stand: Stand) -> None:
    machine = await ready(stand)
    assert root(machine) == ["nvme0n1"], "commissioning left this layout"
    await done(stand)
    assert changes(stand) == ["set_boot_disk", "set_storage_layout"]
    assert root(machine) == ["sda"]


async def test_each_run_sends_at_most_one_change(stand: Stand) -> None:
    await ready(stand)
    for expected in (1, 2):
        assert isinstance(await stand.once(), StageStep)
        assert len(changes(stand)) == expected


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("disks", [(nvme(0), boss()), (boss(),)], ids=["two", "one"])
async def test_a_second_run_of_the_stage_sends_no_change(
    stand: Stand, layout: Layout, disks: tuple[DiskModel, ...]
) -> None:
    machine = await ready(stand, *disks)
    wants(stand, layout)
    await done(stand)
    before = [(disk.id, disk.partition) for disk in machine.disks]
    stand.world.observed.requests.clear()
    await done(stand)
    assert changes(stand) == []
    assert [(disk.id, disk.partition) for disk in machine.disks] == before


@pytest.mark.parametrize("layout", [Layout.FLAT, Layout.LVM, Layout.BCACHE, Layout.BLANK])
async def test_a_layout_that_a_person_made_is_recognised(stand: Stand, layout: Layout) -> None:
    machine = await ready(stand)
    machine.boot_disk_id = machine.disks[-1].id
    lay_out(stand.region, machine, layout=layout.value)
    wants(stand, layout)
    await done(stand)
    assert changes(stand) == []


async def test_a_layout_other_than_the_configured_one_is_replaced(stand: Stand) -> None:
    machine = await ready(stand)
    machine.boot_disk_id = machine.disks[-1].id
    lay_out(stand.region, machine, layout="flat")
    wants(stand, Layout.LVM)
    await done(stand)
    assert changes(stand) == ["set_storage_layout"]
    assert [disk.name for disk in machine.disks if disk.is_virtual] == ["vgroot-lvroot"]


async def test_a_custom_layout_is_applied_again_when_the_stage_is_entered_again(stand: Stand) -> None:
    """The note about a custom layout is valid only for one entry of the stage, because the machine may have been
    commissioned since."""
    await ready(stand)
    wants(stand, Layout.CUSTOM)
    await done(stand)
    stand.pass_time(AGAIN)
    assert stand.node.workflow is not None
    stand.onboards(STAGE, memo=stand.node.workflow.memo)
    await done(stand)
    assert changes(stand) == ["set_boot_disk", "set_storage_layout", "set_storage_layout"]


async def test_the_root_file_system_has_the_size_that_the_site_configures(stand: Stand) -> None:
    machine = await ready(stand)
    wants(stand, Layout.FLAT, root_size_gb=100)
    await done(stand)
    (partition,) = [disk.partition for disk in machine.disks if disk.partition]
    assert abs(partition.size - 100 * 10**9) < 8 << 20
    wants(stand, Layout.FLAT, root_size_gb=200)
    await done(stand)
    assert changes(stand).count("set_storage_layout") == 2, "another size is another layout"


async def test_maas_refuses_a_root_file_system_larger_than_the_disk(stand: Stand) -> None:
    await ready(stand)
    wants(stand, Layout.FLAT, root_size_gb=10_000)
    settled = await failed(stand)
    assert settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "too large" in settled.detail


# --- which disk


@pytest.mark.parametrize("model", ["DELLBOSS VD", "Dell BOSS-N1", "dell_boss-s2"])
async def test_each_generation_of_the_boss_controller_is_recognised(stand: Stand, model: str) -> None:
    machine = await ready(stand, nvme(0), msgspec.structs.replace(boss(), model=model, id_path="/dev/sdb"))
    await done(stand)
    assert root(machine) == ["sda"]


async def test_a_boss_disk_without_a_model_is_recognised_by_its_path(stand: Stand) -> None:
    machine = await ready(stand, nvme(0), msgspec.structs.replace(boss(), model=""))
    await done(stand)
    assert root(machine) == ["sda"]


async def test_the_site_may_name_another_disk(stand: Stand) -> None:
    machine = await ready(stand, nvme(0), msgspec.structs.replace(nvme(1), model="SAMSUNG MZ1L2960"))
    stand.use(storage=StorageSite(boot_disk_model="samsung"))
    await done(stand)
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
    stand: Stand, disks: tuple[DiskModel, ...], message: str
) -> None:
    await ready(stand, *disks)
    settled = await failed(stand)
    assert settled.failure is FailureClass.BOSS_DISK_NOT_FOUND
    assert message in settled.detail
    assert changes(stand) == []


async def test_the_list_of_disks_in_the_failure_is_bounded(stand: Stand) -> None:
    await ready(stand, *(msgspec.structs.replace(nvme(n), model="x" * 500) for n in range(40)))
    settled = await failed(stand)
    assert len(settled.detail) < 1500
    assert "and 28 more" in settled.detail


# --- failures


@pytest.mark.parametrize("op", sorted(MUTATIONS))
@pytest.mark.parametrize("layout", list(Layout))
async def test_a_change_whose_response_was_lost_is_recognised(stand: Stand, op: str, layout: Layout) -> None:
    """Only a custom layout cannot be recognised: it is applied once more, with the same result."""
    machine = await ready(stand)
    wants(stand, layout)
    lost = stand.region.faults.add(Fault(op=op, broken=Broken.DROP))
    settled = await stand.settle()
    assert isinstance(settled, Waiting) and lost.struck == 1
    stand.pass_time(AGAIN)
    await done(stand)
    twice = op == "set_storage_layout" and layout is Layout.CUSTOM
    assert changes(stand).count(op) == (2 if twice else 1)
    assert machine.boot_disk_id == machine.disks[2].id


async def test_a_change_that_maas_accepts_but_does_not_show_fails_the_attempt(stand: Stand) -> None:
    """If the attempt went on, the change would be sent for ever, as fast as the region responds."""
    machine = await ready(stand)
    stand.region.faults.add(Fault(op="set_boot_disk", status=200, body=b"OK", content_type="text/plain", times=None))
    settled = await failed(stand)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert "boot from sda" in settled.detail
    assert changes(stand) == ["set_boot_disk"]
    stand.region.faults.clear()
    stand.pass_time(AGAIN)
    stand.onboards(STAGE)
    await done(stand)
    assert root(machine) == ["sda"]


async def test_a_machine_that_maas_reports_as_not_ready_is_read_again(stand: Stand) -> None:
    await ready(stand)
    stand.region.faults.add(Fault(op="set_boot_disk", status=409, body=b"not Ready.", content_type="text/plain"))
    await stand.once()
    await done(stand)
    assert changes(stand) == ["set_boot_disk", "set_boot_disk", "set_storage_layout"]


# --- configuration


def test_an_invalid_pattern_is_refused_when_the_configuration_is_read() -> None:
    with pytest.raises(msgspec.ValidationError, match="not a valid regular expression"):
        msgspec.convert({"boot_disk_model": "["}, StorageSite)
