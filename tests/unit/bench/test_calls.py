"""Calls of a region, recorded so that they can be repeated on a region with other ids."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from bench.bare_client import in_line
from bench.calls import Calls, Made, Told, needed
from farrier.sim.maas import Region, RegionTransport
from farrier.sim.maas.records import Disk, Machine


def made(path: str, *ids: str, machine: str | None = None) -> Made:
    query = tuple(("id", f"<{name}>") for name in ids)
    return Made(method="GET", path=path, query=query, form=(), machine=machine, creates=False, refused=False)


@pytest.fixture
def region() -> Region:
    region = Region()
    disks = [
        Disk(id=number, name=f"sd{number}", model="", serial="", id_path="", size=1 << 30) for number in (100, 70001)
    ]
    region.keep(Machine(system_id="70001", hostname="gpu-1", disks=disks))
    return region


async def test_ids_are_replaced_by_the_names_of_their_objects(region: Region) -> None:
    calls = Calls(region)
    async with httpx.AsyncClient(transport=RegionTransport(region), base_url="http://maas.test/MAAS/api/2.0/") as http:
        await http.post("nodes/70001/blockdevices/70001/?op=set_boot_disk")
        await http.get("machines/?id=70001&id=elsewhere")
    disk, list_ = calls.made
    assert (disk.path, disk.machine) == ("/MAAS/api/2.0/nodes/<gpu-1>/blockdevices/<gpu-1/disk/1>/", "gpu-1")
    assert (list_.query, list_.machine) == ((("id", "<gpu-1>"), ("id", "elsewhere")), None)
    assert disk.refused, "the call was not signed"


def test_a_call_is_made_with_the_ids_of_another_region() -> None:
    response = msgspec.json.decode(
        b'{"system_id": "abc", "blockdevice_set": [{"id": 7}], "interface_set": []}', type=Told
    )
    call = made("/nodes/<gpu-1>/blockdevices/<gpu-1/disk/0>/", "gpu-1")
    assert call.to(response.ids("gpu-1")) == "/nodes/abc/blockdevices/7/?id=abc"
    assert needed(call) == {"gpu-1"}


def test_calls_of_a_machine_are_grouped_and_a_list_follows_the_machines_that_it_names() -> None:
    one, two = made("/machines/<a>/", machine="a"), made("/machines/<b>/", machine="b")
    both, none = made("/machines/", "a", "b"), made("/users/")
    assert list(in_line([none, one, two, both, one])) == [[one, one], [none], [two], [both]]
