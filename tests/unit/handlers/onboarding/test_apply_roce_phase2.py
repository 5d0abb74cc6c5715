"""Stage `apply_roce_phase2`: sets up the network of the site, with one change per run, and then sends no change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from farrier.handlers.node.changes import Failed, StageStep, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, Fault
from farrier.sim.maas.records import Link, Vlan
from tests.support.networks import begin, changes, links, named, ready
from tests.support.stages import Stand, done, failed, open_stand

STAGE = OnboardingStage.APPLY_ROCE_PHASE2
BOND = {
    "name": "bond0",
    "ports": ["enp1s0f*"],
    "vlan": 200,
    "mtu": 9000,
    "link": {"mode": "static", "addresses": {"gpu-1": "10.30.0.7"}},
    "vlans": [{"vid": 300, "mtu": 8900, "link": {"mode": "auto"}}],
}
TABLES = {
    "bonds": [BOND],
    "ports": [
        {"match": "enp2s0", "mtu": 4200, "link": {"mode": "dhcp"}, "vlans": [{"vid": 300, "link": {"mode": "auto"}}]},
        {"match": "enp1*", "mtu": 9000},
    ],
}
EVERY_CHANGE = [
    "update_interface",  # MTU of enp2s0
    "link_subnet",  # its DHCP
    "create_vlan",  # its VLAN 300
    "link_subnet",
    "update_interface",  # MTU of each port of the bond
    "update_interface",
    "create_bond",
    "link_subnet",  # its address
    "create_vlan",  # its VLAN 300
    "link_subnet",
]


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    async with open_stand() as stand:
        yield stand


# --- the goal


async def test_the_network_is_set_up_as_the_site_configures(at: Stand) -> None:
    machine = await ready(at, TABLES)
    boot = list(machine.interfaces[0].links)
    await done(at)
    assert changes(at) == EVERY_CHANGE
    bond = named(machine, "bond0")
    assert [parent.name for parent in bond.parents] == ["enp1s0f0np0", "enp1s0f1np1"]
    assert (bond.params["bond_mode"], bond.params["bond_lacp_rate"], bond.params["mtu"]) == ("802.3ad", "fast", 9000)
    assert bond.vlan is not None and bond.vlan.vid == 200
    assert links(machine, "bond0") == [("static", "10.30.0.0/16", "10.30.0.7")]
    assert links(machine, "bond0.300") == [("auto", "10.31.0.0/16", None)]
    assert named(machine, "bond0.300").params["mtu"] == 8900
    assert links(machine, "enp2s0") == [("dhcp", None, None)]
    assert links(machine, "enp2s0.300") == [("auto", "10.31.0.0/16", None)]
    assert links(machine, "enp3s0") == [("link_up", None, None)], "no table names this port"
    assert machine.interfaces[0].links == boot


async def test_a_second_run_of_the_stage_sends_no_change(at: Stand) -> None:
    await ready(at, TABLES)
    await done(at)
    at.world.observed.requests.clear()
    await done(at)
    assert at.world.observed.operations == ["machine"], "the region's subnets are cached for seconds"


@pytest.mark.parametrize(
    ("lies_on", "table", "reads_all"),
    [
        ("5004", {"vlan": 200}, False),
        ("5004", {"vlan": 7}, True),
        ("5004", {"vlans": [{"vid": 7}]}, True),
        ("5001", {"link": {"mode": "auto", "subnet": "10.31.0.0/16"}}, False),
        ("5001", {"vlan": 300}, True),
        ("5001", {"vlan": 300, "fabric": "fabric-0"}, False),
    ],
)
async def test_all_fabrics_are_read_only_if_interfaces_and_subnets_do_not_show_the_vlan(
    at: Stand, lies_on: str, table: dict[str, Any], reads_all: bool
) -> None:
    """A region may have thousands of fabrics. Only their list has a VLAN without interfaces and without a subnet."""
    machine = await ready(at, {"ports": [{"match": "enp3s0", **table}]})
    named(machine, "enp3s0").vlan = at.region.site.vlan(lies_on)
    lonely = Vlan(id=5077, fabric_id=0, vid=7)
    at.region.site.spares.append(lonely)
    await done(at)
    assert ("fabrics" in at.world.observed.operations) is reads_all
    assert named(machine, "enp3s0").vlan is not at.region.site.vlan(lies_on) or "vlans" in table


async def test_each_run_sends_at_most_one_change(at: Stand) -> None:
    await ready(at, TABLES)
    for expected in range(1, len(EVERY_CHANGE) + 1):
        settled = await at.once()
        assert isinstance(settled, StageStep) and settled.reason.startswith("requested from MAAS: ")
        assert len(changes(at)) == expected
    await done(at)
    assert len(changes(at)) == len(EVERY_CHANGE)


async def test_a_site_without_a_network_skips_the_stage_without_a_request(at: Stand) -> None:
    await ready(at, {"pxe_subnet": "10.20.0.0/16"})
    settled = await done(at)
    assert settled.skipped == "the site configures no network"
    assert at.world.observed.operations == []


async def test_an_interface_that_a_person_set_up_as_configured_is_kept(at: Stand) -> None:
    machine = await ready(at, {"ports": [{"match": "enp3s0", "link": {"mode": "dhcp"}}]})
    named(machine, "enp3s0").links = [Link(id=900, mode="dhcp")]
    await done(at)
    assert changes(at) == []


async def test_duplicate_links_are_replaced_by_one_link(at: Stand) -> None:
    machine = await ready(at, {"ports": [{"match": "enp3s0", "vlan": 200, "link": {"mode": "auto"}}]})
    await done(at)
    port = named(machine, "enp3s0")
    port.links.append(Link(id=901, mode="auto", subnet=port.links[0].subnet))
    at.onboards(STAGE)
    await done(at)
    assert links(machine, "enp3s0") == [("auto", "10.30.0.0/16", None)]


async def test_a_static_address_that_the_interface_already_has_is_not_linked_again(at: Stand) -> None:
    """MAAS would respond 404, because the address is in use, by this very link."""
    link = {"mode": "static", "addresses": {"gpu-1": "10.30.0.9"}}
    machine = await ready(at, {"ports": [{"match": "enp3s0", "vlan": 200, "link": link}]})
    await done(at)
    assert links(machine, "enp3s0") == [("static", "10.30.0.0/16", "10.30.0.9")]
    await done(at)
    assert changes(at) == ["update_interface", "link_subnet"]
    named(machine, "enp3s0").links.append(Link(id=902, mode="link_up"))
    at.onboards(STAGE)
    await done(at)
    assert links(machine, "enp3s0") == [("static", "10.30.0.0/16", "10.30.0.9")]


async def test_an_address_of_another_machine_is_reported_as_invalid_configuration(at: Stand) -> None:
    link = {"mode": "static", "addresses": {"gpu-1": "10.30.0.9"}}
    await ready(at, {"ports": [{"match": "enp3s0", "vlan": 200, "link": link}]})
    at.region.claimed.add("10.30.0.9")
    settled = await at.settle()
    assert isinstance(settled, Failed) and settled.failure is FailureClass.INVALID_CONFIG
    assert "already in use" in settled.detail


# --- failures


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"ports": [{"match": "ens*"}]}, "network.ports 1: no port matches 'ens*'"),
        ({"bonds": [BOND | {"ports": ["enp2*"]}]}, "a bond needs at least two ports"),
        ({"bonds": [BOND | {"vlan": 999}]}, "network.bonds 1 (bond0): the region has no VLAN 999"),
        ({"ports": [{"match": "enp2*", "link": {"subnet": "10.9.0.0/16"}}]}, "no subnet 10.9.0.0/16"),
        (TABLES | {"ports": [{"match": "enp2s0", "mtu": 9000}, {"match": "nothing"}]}, "network.ports 2"),
    ],
)
async def test_tables_that_do_not_fit_the_machine_change_nothing(
    at: Stand, tables: dict[str, Any], message: str
) -> None:
    await ready(at, tables)
    settled = await failed(at)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert message in settled.detail
    assert changes(at) == []


@pytest.mark.parametrize("number", range(len(EVERY_CHANGE)))
async def test_a_change_whose_response_was_lost_is_recognised(at: Stand, number: int) -> None:
    machine = await ready(at, TABLES)
    for _ in range(number):
        await at.once()
    op = {"update_interface": None}.get(EVERY_CHANGE[number], EVERY_CHANGE[number])
    lost = at.region.faults.add(Fault(method="PUT" if op is None else "POST", op=op, broken=Broken.DROP))
    assert isinstance(await at.once(), Waiting)
    assert lost.struck == 1
    await done(at)
    assert changes(at) == EVERY_CHANGE, "each change is sent once"
    assert links(machine, "bond0") == [("static", "10.30.0.0/16", "10.30.0.7")]


async def test_a_change_that_maas_accepts_but_does_not_show_fails_the_attempt(at: Stand) -> None:
    await ready(at, {"ports": [{"match": "enp3s0", "mtu": 9000}]})
    at.region.faults.add(Fault(method="PUT", status=200, body=b"{}", content_type="application/json", times=None))
    settled = await failed(at)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert "set enp3s0 to MTU 9000" in settled.detail
    assert changes(at) == ["update_interface"]


async def test_a_refused_change_fails_the_attempt_with_the_reason_of_maas(at: Stand) -> None:
    await ready(at, TABLES)
    body = b'{"name": ["Invalid."]}'
    at.region.faults.add(Fault(op="create_bond", status=400, body=body, content_type="application/json"))
    settled = await failed(at)
    assert settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "Invalid." in settled.detail


async def test_an_existing_bond_of_other_ports_is_not_changed(at: Stand) -> None:
    machine = await ready(at, TABLES)
    await done(at)
    begin(at, {"bonds": [BOND | {"ports": ["enp1s0f0*", "enp3*"]}]})
    settled = await failed(at)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert "has the ports enp1s0f0np0, enp1s0f1np1, but should have enp1s0f0np0, enp3s0" in settled.detail
    assert changes(at) == [] and named(machine, "bond0").parents
