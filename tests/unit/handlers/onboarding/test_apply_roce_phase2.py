"""Stage `apply_roce_phase2`: sets up the network of the site, with one change per run, and then sends no change."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.handlers.node.changes import Failed, StageStep, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, Fault
from farrier.sim.maas.records import Link, Vlan
from tests.support.networks import begin, changes, links, named, ready
from tests.support.stages import Stand, done, failed

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


# --- the goal


async def test_the_network_is_set_up_as_the_site_configures(stand: Stand) -> None:
    machine = await ready(stand, TABLES)
    boot = list(machine.interfaces[0].links)
    await done(stand)
    assert changes(stand) == EVERY_CHANGE
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


async def test_a_second_run_of_the_stage_sends_no_change(stand: Stand) -> None:
    await ready(stand, TABLES)
    await done(stand)
    stand.world.observed.requests.clear()
    await done(stand)
    assert stand.world.observed.operations == ["machine"], "the region's subnets are cached for seconds"


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
    stand: Stand, lies_on: str, table: dict[str, Any], reads_all: bool
) -> None:
    """A region may have thousands of fabrics. Only their list has a VLAN without interfaces and without a subnet."""
    machine = await ready(stand, {"ports": [{"match": "enp3s0", **table}]})
    named(machine, "enp3s0").vlan = stand.region.site.vlan(lies_on)
    lonely = Vlan(id=5077, fabric_id=0, vid=7)
    stand.region.site.spares.append(lonely)
    await done(stand)
    assert ("fabrics" in stand.world.observed.operations) is reads_all
    assert named(machine, "enp3s0").vlan is not stand.region.site.vlan(lies_on) or "vlans" in table


async def test_each_run_sends_at_most_one_change(stand: Stand) -> None:
    await ready(stand, TABLES)
    for expected in range(1, len(EVERY_CHANGE) + 1):
        settled = await stand.once()
        assert isinstance(settled, StageStep) and settled.reason.startswith("requested from MAAS: ")
        assert len(changes(stand)) == expected
    await done(stand)
    assert len(changes(stand)) == len(EVERY_CHANGE)


async def test_a_site_without_a_network_skips_the_stage_without_a_request(stand: Stand) -> None:
    await ready(stand, {"pxe_subnet": "10.20.0.0/16"})
    settled = await done(stand)
    assert settled.skipped == "the site configures no network"
    assert stand.world.observed.operations == []


async def test_an_interface_that_a_person_set_up_as_configured_is_kept(stand: Stand) -> None:
    machine = await ready(stand, {"ports": [{"match": "enp3s0", "link": {"mode": "dhcp"}}]})
    named(machine, "enp3s0").links = [Link(id=900, mode="dhcp")]
    await done(stand)
    assert changes(stand) == []


async def test_duplicate_links_are_replaced_by_one_link(stand: Stand) -> None:
    machine = await ready(stand, {"ports": [{"match": "enp3s0", "vlan": 200, "link": {"mode": "auto"}}]})
    await done(stand)
    port = named(machine, "enp3s0")
    port.links.append(Link(id=901, mode="auto", subnet=port.links[0].subnet))
    stand.onboards(STAGE)
    await done(stand)
    assert links(machine, "enp3s0") == [("auto", "10.30.0.0/16", None)]


async def test_a_static_address_that_the_interface_already_has_is_not_linked_again(stand: Stand) -> None:
    """MAAS would respond 404, because the address is in use, by this very link."""
    link = {"mode": "static", "addresses": {"gpu-1": "10.30.0.9"}}
    machine = await ready(stand, {"ports": [{"match": "enp3s0", "vlan": 200, "link": link}]})
    await done(stand)
    assert links(machine, "enp3s0") == [("static", "10.30.0.0/16", "10.30.0.9")]
    await done(stand)
    assert changes(stand) == ["update_interface", "link_subnet"]
    named(machine, "enp3s0").links.append(Link(id=902, mode="link_up"))
    stand.onboards(STAGE)
    await done(stand)
    assert links(machine, "enp3s0") == [("static", "10.30.0.0/16", "10.30.0.9")]


async def test_an_address_of_another_machine_is_reported_as_invalid_configuration(stand: Stand) -> None:
    link = {"mode": "static", "addresses": {"gpu-1": "10.30.0.9"}}
    await ready(stand, {"ports": [{"match": "enp3s0", "vlan": 200, "link": link}]})
    stand.region.claimed.add("10.30.0.9")
    settled = await stand.settle()
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
    stand: Stand, tables: dict[str, Any], message: str
) -> None:
    await ready(stand, tables)
    settled = await failed(stand)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert message in settled.detail
    assert changes(stand) == []


@pytest.mark.parametrize("number", range(len(EVERY_CHANGE)))
async def test_a_change_whose_response_was_lost_is_recognised(stand: Stand, number: int) -> None:
    machine = await ready(stand, TABLES)
    for _ in range(number):
        await stand.once()
    op = {"update_interface": None}.get(EVERY_CHANGE[number], EVERY_CHANGE[number])
    lost = stand.region.faults.add(Fault(method="PUT" if op is None else "POST", op=op, broken=Broken.DROP))
    assert isinstance(await stand.once(), Waiting)
    assert lost.struck == 1
    await done(stand)
    assert changes(stand) == EVERY_CHANGE, "each change is sent once"
    assert links(machine, "bond0") == [("static", "10.30.0.0/16", "10.30.0.7")]


async def test_a_change_that_maas_accepts_but_does_not_show_fails_the_attempt(stand: Stand) -> None:
    await ready(stand, {"ports": [{"match": "enp3s0", "mtu": 9000}]})
    stand.region.faults.add(Fault(method="PUT", status=200, body=b"{}", content_type="application/json", times=None))
    settled = await failed(stand)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert "set enp3s0 to MTU 9000" in settled.detail
    assert changes(stand) == ["update_interface"]


async def test_a_refused_change_fails_the_attempt_with_the_reason_of_maas(stand: Stand) -> None:
    await ready(stand, TABLES)
    body = b'{"name": ["Invalid."]}'
    stand.region.faults.add(Fault(op="create_bond", status=400, body=body, content_type="application/json"))
    settled = await failed(stand)
    assert settled.failure is FailureClass.UPSTREAM_REFUSED
    assert "Invalid." in settled.detail


async def test_an_existing_bond_of_other_ports_is_not_changed(stand: Stand) -> None:
    machine = await ready(stand, TABLES)
    await done(stand)
    begin(stand, {"bonds": [BOND | {"ports": ["enp1s0f0*", "enp3*"]}]})
    settled = await failed(stand)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert "has the ports enp1s0f0np0, enp1s0f1np1, but should have enp1s0f0np0, enp3s0" in settled.detail
    assert changes(stand) == [] and named(machine, "bond0").parents
