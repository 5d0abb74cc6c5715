"""A change made in UFM is reverted; a port without a member is removed, but not at the first read that shows it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from farrier.sim.ufm.manager import Port
from tests.support.partitions import GUIDS, KEY, Fabric


@pytest.mark.parametrize(
    ("name", "value"), [("mtu_limit", 2), ("rate_limit", 10.0), ("service_level", 7), ("ip_over_ib", False)]
)
async def test_service_settings_that_drift_are_restored(fabric: Fabric, name: str, value: object) -> None:
    made = await fabric.ready("ib", GUIDS[0], mtu_limit=4, rate_limit="200", service_level=3)
    wanted = msgspec.structs.asdict(fabric.manager.partitions[KEY])
    setattr(fabric.manager.partitions[KEY], name, value)
    await fabric.wait()
    assert msgspec.structs.asdict(fabric.manager.partitions[KEY]) == wanted
    assert await fabric.history(made) == ["ready"]


async def test_an_update_reaches_ufm_at_once_and_keeps_what_it_does_not_name(fabric: Fabric) -> None:
    made = await fabric.ready("ib", mtu_limit=4, rate_limit="200")
    assert await fabric.asked("update", service_level=5) == ("accepted", "")
    found = fabric.manager.partitions[KEY]
    assert (found.mtu_limit, found.rate_limit, found.service_level) == (4, 200.0, 5)
    assert await fabric.history(made) == ["ready"]


async def test_a_port_that_vanishes_in_ufm_is_added_again(fabric: Fabric) -> None:
    await fabric.ready("ib", *GUIDS[:2])
    del fabric.manager.partitions[KEY].ports[GUIDS[0]]
    await fabric.wait()
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "full"}
    assert await fabric.members() == {GUIDS[0]: "applied", GUIDS[1]: "applied"}


@pytest.mark.parametrize("drifted", [Port("limited"), Port("full", index0=True)])
async def test_a_port_with_a_changed_membership_is_restored_without_a_removal(fabric: Fabric, drifted: Port) -> None:
    await fabric.ready("ib", *GUIDS[:2])
    fabric.manager.partitions[KEY].ports[GUIDS[0]] = drifted
    await fabric.wait()
    assert fabric.manager.partitions[KEY].ports == {GUIDS[0]: Port(), GUIDS[1]: Port()}
    assert fabric.manager.changes[-1] == "set" and "remove" not in fabric.manager.changes


async def test_a_partition_that_vanishes_in_ufm_is_made_again_with_its_members(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:2], mtu_limit=4)
    del fabric.manager.partitions[KEY]
    await fabric.wait()
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "full"} and fabric.manager.partitions[KEY].mtu_limit == 4
    assert await fabric.history(made) == ["ready"]


async def test_a_port_without_a_member_is_reported_first_and_removed_when_it_stays(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    fabric.manager.partitions[KEY].ports[GUIDS[9]] = Port()
    await fabric.wait()
    assert GUIDS[9] in fabric.ports
    outcome = await fabric.outcome(made)
    assert GUIDS[9] in outcome["reason"] and "not members" in outcome["reason"]
    with capture_logs() as logs:
        await fabric.wait()
    assert fabric.ports == {GUIDS[0]: "full"}
    assert "removed" in (await fabric.outcome(made))["reason"]
    told = [log for log in logs if log["event"] == "ib_partition.strangers_removed"]
    assert [log["guids"] for log in told] == [[GUIDS[9]]]
    await fabric.wait()
    assert (await fabric.outcome(made))["outcome"] == "do_nothing"
    assert await fabric.history(made) == ["ready"]


async def test_a_port_that_a_client_joins_meanwhile_stays(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    fabric.manager.partitions[KEY].ports[GUIDS[9]] = Port()
    await fabric.wait()
    await fabric.join(GUIDS[9], "node-9")
    await fabric.wait()
    await fabric.wait()
    assert set(fabric.ports) == {GUIDS[0], GUIDS[9]}
    assert (await fabric.members())[GUIDS[9]] == "applied"
    assert "remove" not in fabric.manager.changes


async def test_a_port_without_a_member_that_reappears_counts_as_first_seen(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    fabric.manager.partitions[KEY].ports[GUIDS[9]] = Port()
    await fabric.wait()
    del fabric.manager.partitions[KEY].ports[GUIDS[9]]
    await fabric.wait()
    assert (await fabric.row(made))["strangers"] == "[]"
    fabric.manager.partitions[KEY].ports[GUIDS[9]] = Port()
    await fabric.wait()
    assert GUIDS[9] in fabric.ports


async def test_a_partition_keeps_the_name_that_ufm_gave_unless_the_site_sets_names(fabric: Fabric) -> None:
    made = await fabric.ready("tenant-a", GUIDS[0])
    assert fabric.manager.partitions[KEY].name == "api_pkey_0x10"
    await fabric.named()
    await fabric.wait()
    assert fabric.manager.partitions[KEY].name == "tenant-a"
    fabric.manager.partitions[KEY].name = "renamed"
    await fabric.wait()
    assert fabric.manager.partitions[KEY].name == "tenant-a"
    assert (await fabric.row(made))["fabric_name"] == "tenant-a"
    assert fabric.ports == {GUIDS[0]: "full"}


async def test_ufm_is_not_read_more_often_than_once_a_period(fabric: Fabric) -> None:
    await fabric.ready()
    before = len(fabric.manager.requests)
    await fabric.wait(timedelta(seconds=20))
    assert len(fabric.manager.requests) == before
