"""A site whose UFM is replaced by a reload: in the new UFM only partitions that farrier certainly made are changed."""

from __future__ import annotations

import msgspec
import pytest

from farrier.sim.ufm import Manager, Partition
from farrier.sim.ufm.manager import Port
from tests.support.partitions import GUIDS, KEY, SITE, Fabric

URL = "http://ufm2.test"


async def move(fabric: Fabric, other: Manager) -> None:
    """Reload the site's settings with another UFM."""
    fabric.hosts["ufm2.test"] = other
    await fabric.fabrics.use({SITE: msgspec.structs.replace(fabric.settings[SITE], url=URL)})


async def test_a_foreign_partition_with_the_same_key_is_reported_and_not_changed(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    other = Manager()
    theirs = Partition("storage", mtu_limit=4, rate_limit=200.0, ports={GUIDS[30]: Port(), GUIDS[31]: Port()})
    other.partitions[KEY] = theirs
    await move(fabric, other)
    for _ in range(3):
        await fabric.wait()
    assert other.changes == [] and other.partitions[KEY] is theirs
    outcome = await fabric.outcome(made)
    assert outcome["error"] == "ufm" and all(word in outcome["reason"] for word in ("storage", URL, "http://ufm.test"))
    await fabric.leave(GUIDS[0])
    await fabric.asked("delete")
    await fabric.wait()
    assert other.changes == [] and await fabric.state(made) == "deleting" and await fabric.taken() == [KEY]


@pytest.mark.parametrize("name", ["api_pkey_0x10", "storage"])
async def test_a_single_foreign_port_marks_a_partition_as_foreign(fabric: Fabric, name: str) -> None:
    await fabric.ready("ib", GUIDS[0])
    other = Manager()
    other.partitions[KEY] = Partition(name, ports={GUIDS[0]: Port(), GUIDS[30]: Port()})
    await move(fabric, other)
    await fabric.wait()
    await fabric.wait()
    assert other.changes == []


async def test_in_a_ufm_where_the_key_is_free_the_partition_is_made_again(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0], mtu_limit=4)
    other = Manager()
    await move(fabric, other)
    await fabric.wait()
    assert list(other.partitions[KEY].ports) == [GUIDS[0]] and other.partitions[KEY].mtu_limit == 4
    assert await fabric.history(made) == ["ready"]
    assert (await fabric.row(made))["claimed_in"] == URL


async def test_a_new_address_of_the_same_ufm_changes_nothing_for_its_partitions(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:2])
    before = len(fabric.manager.changes)
    await move(fabric, fabric.manager)
    await fabric.wait()
    assert len(fabric.manager.changes) == before
    assert (await fabric.row(made))["claimed_in"] == URL
    await fabric.asked("delete", drain=True)
    await fabric.leave(GUIDS[0])
    await fabric.leave(GUIDS[1], "node-2")
    await fabric.wait()
    assert await fabric.state(made) == "gone" and KEY not in fabric.manager.partitions


async def test_a_deletion_waits_for_the_ufm_in_which_the_partition_was_made(fabric: Fabric) -> None:
    made = await fabric.ready()
    await move(fabric, Manager())
    await fabric.asked("delete")
    for _ in range(2):
        await fabric.wait()
    assert await fabric.state(made) == "deleting" and await fabric.taken() == [KEY]
    assert "http://ufm.test" in (await fabric.outcome(made))["reason"]
    await fabric.fabrics.use(fabric.settings)
    await fabric.wait()
    assert await fabric.state(made) == "gone" and KEY not in fabric.manager.partitions
