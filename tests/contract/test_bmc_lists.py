"""Lists in pages: every page is read, and nothing is concluded from what an incomplete list lacks."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget
from farrier.services.bmc.probe import MOST_PAGES
from tests.support.bmc import (
    CREDENTIAL,
    INTERFACES,
    MANAGER,
    MANAGERS,
    SYSTEM,
    SYSTEMS,
    FakeBmc,
    Page,
    connect,
    members,
    system,
)

BOTH = ("aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02")
BASEBOARD = "/redfish/v1/Systems/Baseboard"


async def read(bmc: FakeBmc) -> BmcReading:
    async with connect(bmc.ca_file) as client:
        return await client.verify(BmcTarget(address=bmc.url, credential=CREDENTIAL), macs=True)


def page(*paths: str, more: Any = None, field: str = "Members@odata.nextLink") -> dict[str, Any]:
    listed = members(*paths)
    del listed["Members@odata.count"]
    return listed if more is None else {**listed, field: more}


@pytest.mark.parametrize(
    ("link", "field"),
    [
        ("{path}?$skip=1", "Members@odata.nextLink"),
        ("{path}?$skip=1", "@odata.nextLink"),
        ({"@odata.id": "{path}?$skip=1"}, "Members@odata.nextLink"),
        ("{url}{path}?$skip=1", "Members@odata.nextLink"),
        ("https://127.0.0.1{path}?$skip=1", "Members@odata.nextLink"),
    ],
    ids=["path", "old field", "object", "absolute", "absolute without port"],
)
async def test_every_list_is_read_to_its_last_page(bmc: FakeBmc, link: Any, field: str) -> None:
    def of(path: str) -> Any:
        spelled = {"path": path, "url": bmc.url}
        return link.format(**spelled) if isinstance(link, str) else {"@odata.id": link["@odata.id"].format(**spelled)}

    bmc.answer(SYSTEM, system(Links=...))
    for path, first, second in (
        (SYSTEMS, BASEBOARD, SYSTEM),
        (MANAGERS, "/redfish/v1/Managers/Gone", MANAGER),
        (INTERFACES, f"{INTERFACES}/1", f"{INTERFACES}/2"),
    ):
        bmc.answer(path, page(first, more=of(path), field=field))
        bmc.answer(f"{path}?$skip=1", page(second))
    bmc.answer(BASEBOARD, system(Actions=..., Bios=...))
    reading = await read(bmc)
    assert (reading.system_path, reading.macs) == (SYSTEM, BOTH)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(page(f"{INTERFACES}/1", more=INTERFACES), id="loop"),
        pytest.param(page(f"{INTERFACES}/1", more="https://192.0.2.1/redfish/v1/next"), id="another host"),
        pytest.param(page(f"{INTERFACES}/1", more=7), id="no link"),
        pytest.param(page(f"{INTERFACES}/1", more=f"{INTERFACES}?gone"), id="missing"),
        pytest.param({**members(f"{INTERFACES}/1"), "Members@odata.count": 2}, id="fewer than counted"),
        pytest.param({"Members": [{"@odata.id": f"{INTERFACES}/1"}, {"error": "busy"}]}, id="no member"),
    ],
)
async def test_nothing_is_concluded_from_an_incomplete_list_of_interfaces(bmc: FakeBmc, last: dict[str, Any]) -> None:
    bmc.answer(INTERFACES, last)
    assert (await read(bmc)).macs == ()


async def test_a_list_without_end_is_bounded(bmc: FakeBmc) -> None:
    for number in range(MOST_PAGES + 1):
        path = f"{INTERFACES}?page={number}" if number else INTERFACES
        bmc.answer(path, page(f"{INTERFACES}/1", more=f"{INTERFACES}?page={number + 1}"))
    assert (await read(bmc)).macs == ()
    assert sum(request.path.startswith(f"{INTERFACES}?") for request in bmc.requests) == MOST_PAGES - 1


@pytest.mark.parametrize(
    "listed",
    [{**members(SYSTEM), "Members@odata.count": 2}, page(SYSTEM, more=SYSTEMS), page(SYSTEM, more="//192.0.2.1/x")],
    ids=["fewer than counted", "loop", "another host"],
)
async def test_no_host_is_chosen_from_an_incomplete_list_of_systems(bmc: FakeBmc, listed: dict[str, Any]) -> None:
    bmc.answer(SYSTEMS, listed)
    with pytest.raises(BmcError, match="incomplete") as raised:
        await read(bmc)
    assert raised.value.failure is BmcFailure.UNSUPPORTED
    assert "add the path of the host's system to the BMC address" in raised.value.detail


@pytest.mark.parametrize(
    ("spelled", "read_as"),
    [
        ("AABBCC000001", BOTH),
        ("aabb.cc00.0001", BOTH),
        ("AA-BB-CC-00-00-01", BOTH),
        ("aabbcc-000001", BOTH),
        ("AA BB CC 00 00 01", BOTH),
        ("0xAABBCC000001", BOTH),
        ("aa:bb:cc:00:00:01 50:01:43:80:12:34:56:78", BOTH),
        ("5001438012345678, aa:bb:cc:00:00:01", BOTH),
        # These have no address of Ethernet.
        ("50:01:43:80:12:34:56:78", BOTH[1:]),
        ("80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:12:34:56", BOTH[1:]),
        ("00:00:00:00:00:00", BOTH[1:]),
        ("ff-ff-ff-ff-ff-ff", BOTH[1:]),
        ("N/A", BOTH[1:]),
        ("Not Available", BOTH[1:]),
        ("", BOTH[1:]),
        (None, BOTH[1:]),
        # farrier cannot tell which address these are, so the whole list counts as unreadable.
        ("aa:bb:cc:00:00", ()),
        ("aa:bb:cc:00:00:zz", ()),
        ("see label", ()),
    ],
)
async def test_an_address_in_any_notation_is_read_or_the_whole_list_is_unreadable(
    bmc: FakeBmc, spelled: str | None, read_as: tuple[str, ...]
) -> None:
    bmc.answer(f"{INTERFACES}/2", {"MACAddress": spelled})
    assert (await read(bmc)).macs == read_as


async def test_a_placeholder_of_a_burnt_in_address_does_not_hide_the_address_in_use(bmc: FakeBmc) -> None:
    answer = {"PermanentMACAddress": "00:00:00:00:00:00", "MACAddress": "aa:bb:cc:00:00:01"}
    bmc.answer(f"{INTERFACES}/2", answer)
    assert (await read(bmc)).macs == BOTH


async def test_a_bmc_that_lists_its_members_completely_is_read_whatever_it_counts(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEMS, {**members(SYSTEM), "Members@odata.count": "1", "Description": Page.__name__})
    assert (await read(bmc)).system_path == SYSTEM
