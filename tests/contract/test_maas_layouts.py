"""The simulated region's layouts and interfaces behave as the real one's, beyond the recordings: the place of the root,
the links that a move to another VLAN removes, the MTUs that follow each other, refusals, and identities."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.sim.maas import Nature, Region
from farrier.sim.maas.hardware import Hardware
from tests.support.maas_region import Caller, ready


def roots(machine: dict[str, Any]) -> list[tuple[str, str]]:
    """(type, name) of each device that the root is on."""
    return [
        (disk["type"], disk["name"])
        for disk in machine["blockdevice_set"]
        for held in (disk, *disk["partitions"])
        if held["filesystem"] and held["filesystem"]["mount_point"] == "/"
    ]


@pytest.mark.parametrize(
    ("layout", "root", "below"),
    [
        ("flat", ("physical", "nvme0n1"), "ext4"),
        ("lvm", ("virtual", "vgroot-lvroot"), "lvm-pv"),
        ("bcache", ("virtual", "bcache0"), "bcache-backing"),
    ],
)
async def test_each_layout_puts_the_root_on_its_own_device(
    region: Region, caller: Caller, layout: str, root: tuple[str, str], below: str
) -> None:
    path = f"machines/{await ready(region, caller)}/?op=set_storage_layout"
    for _ in range(2):
        machine = (await caller.post(path, storage_layout=layout)).json()
        assert roots(machine) == [root]
        assert machine["boot_disk"]["partitions"][0]["filesystem"]["fstype"] == below
        physical, virtual = machine["physicalblockdevice_set"], machine["virtualblockdevice_set"]
        assert [*physical, *virtual] == machine["blockdevice_set"]
        assert len(virtual) == (0 if layout == "flat" else 1)
    machine = (await caller.post(path, storage_layout="blank")).json()
    assert roots(machine) == [] and machine["virtualblockdevice_set"] == []


async def test_a_root_has_the_size_that_was_asked_for_and_fits_the_disk(region: Region, caller: Caller) -> None:
    path = f"machines/{await ready(region, caller)}/?op=set_storage_layout"
    machine = (await caller.post(path, storage_layout="flat", root_size="100000000000")).json()
    assert 0 <= 100_000_000_000 - machine["boot_disk"]["partitions"][0]["size"] <= 16 << 20
    too_large = await caller.post(path, storage_layout="flat", root_size=str(10**15))
    assert too_large.status_code == 400 and "too large" in too_large.text


async def test_an_interface_that_moves_to_another_vlan_loses_its_links(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    boot = region.machines[system_id].interfaces[0]
    path = f"nodes/{system_id}/interfaces/{boot.id}/"
    same = (await caller.send("PUT", path, {"vlan": "5001"})).json()
    assert [link["mode"] for link in same["links"]] == ["auto"]
    moved = (await caller.send("PUT", path, {"vlan": "5002"})).json()
    assert (moved["vlan"]["id"], moved["links"]) == (5002, [])


async def test_the_ports_of_a_bond_follow_its_vlan(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    ports = region.machines[system_id].interfaces[1:]
    form = {"name": "bond0", "parents": [str(one.id) for one in ports], "vlan": "5002"}
    bond = (await caller.send("POST", f"nodes/{system_id}/interfaces/?op=create_bond", form)).json()
    assert {one.vlan.id for one in ports if one.vlan} == {5002}
    await caller.send("PUT", f"nodes/{system_id}/interfaces/{bond['id']}/", {"vlan": "5004"})
    assert {one.vlan.id for one in ports if one.vlan} == {5004}


async def test_the_mtus_of_an_interface_and_its_vlan_follow_each_other(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    parent = region.machines[system_id].interfaces[1]
    form = {"parent": str(parent.id), "vlan": "5002", "mtu": "9000"}
    vlan = (await caller.send("POST", f"nodes/{system_id}/interfaces/?op=create_vlan", form)).json()
    assert (vlan["effective_mtu"], parent.params["mtu"]) == (9000, 9000)
    await caller.send("PUT", f"nodes/{system_id}/interfaces/{parent.id}/", {"mtu": "1500"})
    (child,) = [one for one in region.machines[system_id].interfaces if one.id == vlan["id"]]
    assert child.params["mtu"] == 1500


@pytest.mark.parametrize(
    ("vlan", "parent", "told"),
    [("5001", 1, "tagged VLAN"), ("5002", 0, "same fabric")],
    ids=["untagged", "another fabric"],
)
async def test_a_vlan_interface_needs_a_tagged_vlan_of_its_parents_fabric(
    region: Region, caller: Caller, vlan: str, parent: int, told: str
) -> None:
    system_id = await ready(region, caller)
    on = str(region.machines[system_id].interfaces[parent].id)
    refused = await caller.post(f"nodes/{system_id}/interfaces/?op=create_vlan", parent=on, vlan=vlan)
    assert refused.status_code == 400 and told in refused.text


async def test_commissioning_reports_the_identity_of_the_system_and_no_uuid_that_two_machines_have(
    region: Region, caller: Caller
) -> None:
    uuid = "4c4c4544-0042-4a10-8054-b9c04f4e5a33"
    region.default_nature = Nature(hardware=Hardware(serial="TAG77", uuid=uuid))
    first = f"machines/{await ready(region, caller)}/"
    shown = (await caller.get(first)).json()
    assert (shown["hardware_uuid"], shown["hardware_info"]["system_serial"]) == (uuid, "TAG77")
    region.default_nature = Nature(hardware=Hardware(serial="0123456789", uuid=uuid))
    second = (await caller.get(f"machines/{await ready(region, caller, number=2)}/")).json()
    assert (second["hardware_uuid"], second["hardware_info"]["system_serial"]) == (None, "Unknown")
    assert (await caller.get(first)).json()["hardware_uuid"] is None
