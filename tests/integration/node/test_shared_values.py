"""Two machines may share a value: it identifies neither if they otherwise differ, and an operator sees it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.model.machine.bmc import BmcReading, BmcTarget, PowerState
from tests.support.fake_bmc import READING
from tests.support.identities import SHIPPED_SERIALS, SHIPPED_UUIDS
from tests.support.site import Machine, Site

UUID = "38b7a8c4-0001-11ec-9621-0242ac130002"
OTHER = "99b7a8c4-0001-11ec-9621-0242ac130002"
ONE, TWO, BOTH = "a4:bb:6d:00:00:01", "a4:bb:6d:00:00:02", "a4:bb:6d:00:00:09"
USB = "be:3a:f2:b6:05:9f"


def responds(site: Site, **machines: dict[str, Any]) -> None:
    """The machine that responds at each node's address. A machine has no serial number and no UUID but those given."""
    bare = replace(READING, serial=None, uuid=None, manufacturer="ACME")

    def script(target: BmcTarget) -> BmcReading:
        given = machines["first" if target.address.endswith("10.0.0.1") else "second"]
        return replace(bare, power=PowerState.ON, **given)

    site.bmc.script = site.bmc.read_script = script


async def pair(site: Site, **second: Any) -> tuple[Machine, Machine]:
    return await site.with_bmc("gpu-1"), await site.with_bmc("gpu-2", **second)


async def alike(machine: Machine) -> list[str]:
    found: list[str] = await machine.site.conn.fetchval("SELECT farrier.alike_machines($1)", machine.id)
    return found


@pytest.mark.parametrize("uuid", SHIPPED_UUIDS[:6])
@pytest.mark.parametrize("serial", SHIPPED_SERIALS[:3])
async def test_two_machines_with_the_values_that_a_vendor_ships_are_two_machines(
    site: Site, uuid: str, serial: str
) -> None:
    same = {"uuid": uuid, "serial": serial}
    responds(site, first=same | {"macs": (ONE, USB)}, second=same | {"macs": (TWO, USB)})
    for machine in await pair(site):
        assert (await machine.look())["management"] == "manageable"
        assert await alike(machine) == []


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        pytest.param(
            {"uuid": UUID, "serial": "SN-1"}, {"uuid": UUID, "serial": "SN-2"}, "the UUID", id="UUID of two serials"
        ),
        pytest.param(
            {"uuid": UUID, "macs": (ONE,)}, {"uuid": UUID, "macs": (TWO,)}, "the UUID", id="UUID, other cards"
        ),
        pytest.param(
            {"uuid": UUID, "serial": "SN-1"}, {"uuid": OTHER, "serial": "SN-1"}, "the serial number", id="a chassis"
        ),
        pytest.param({"macs": (ONE, BOTH)}, {"macs": (TWO, BOTH)}, "a MAC address", id="one common address"),
        pytest.param({"macs": (BOTH,)}, {"macs": (TWO, BOTH)}, "a MAC address", id="one address of several"),
    ],
)
async def test_machines_that_share_a_value_but_otherwise_differ_are_accepted_and_shown(
    site: Site, first: dict[str, Any], second: dict[str, Any], what: str
) -> None:
    responds(site, first=first, second=second)
    one, two = await pair(site)
    for machine, other in ((one, "gpu-2"), (two, "gpu-1")):
        assert (await machine.look())["management"] == "manageable"
        assert await alike(machine) == [f"{what} of {other}"]
        assert await site.conn.fetchval("SELECT farrier.same_machine($1)", machine.id) == []
    assert (await two.ask("set_power", power="off")).status == "accepted", "each has a machine of its own"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"uuid": UUID, "macs": (ONE,)}, {"uuid": UUID, "macs": (ONE, TWO)}, id="UUID and a card"),
        pytest.param({"uuid": UUID}, {"uuid": UUID, "serial": "SN-1"}, id="UUID, a serial that appeared"),
        pytest.param({"serial": "SN-1", "macs": (ONE,)}, {"serial": "SN-1", "macs": (TWO,)}, id="serial, new cards"),
        pytest.param({"macs": (ONE, TWO)}, {"macs": (TWO, ONE)}, id="all addresses"),
    ],
)
async def test_one_machine_with_two_addresses_is_refused_to_the_second_node(
    site: Site, first: dict[str, Any], second: dict[str, Any]
) -> None:
    responds(site, first=first, second=second)
    _, two = await pair(site)
    assert (await two.look())["management"] == "enroll"
    assert (await two.bmc())["failure"] == "identity_taken"


async def test_a_value_is_no_longer_shared_when_the_first_machine_leaves(site: Site) -> None:
    responds(site, first={"uuid": UUID, "serial": "SN-1"}, second={"uuid": UUID, "serial": "SN-2"})
    one, two = await pair(site)
    await one.asked("clear_bmc")
    await one.asked("delete")
    assert await alike(two) == []
    assert (await two.look())["management"] == "manageable"


async def test_registered_addresses_outweigh_one_common_address(site: Site) -> None:
    """The second node's own addresses are all there, and only one of the first node's."""
    await site.register("gpu-1", macs=[ONE, BOTH])
    responds(site, first={"macs": (TWO, BOTH)}, second={"macs": (TWO, BOTH)})
    second = await site.with_bmc("gpu-2", macs=[TWO])
    assert (await second.look())["management"] == "manageable"


async def test_a_machine_with_all_registered_addresses_of_another_node_is_refused(site: Site) -> None:
    await site.register("gpu-1", macs=["52:54:00:00:00:01"])
    responds(site, first={}, second={"macs": ("52:54:00:00:00:01", TWO)})
    second = await site.with_bmc("gpu-2")
    assert (await second.bmc())["failure"] == "identity_taken"
