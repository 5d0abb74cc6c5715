"""Stage `ensure_pxe_interface_auto`: gives the boot interface one automatic link, or reports why it cannot."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.config.sites import NetworkSite
from farrier.handlers.node.changes import StageStep, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Broken, Fault, Status
from farrier.sim.maas.records import Interface, Link, Machine, Subnet, Vlan
from tests.support.machines import machine_in
from tests.support.stages import Stand, done, failed

STAGE = OnboardingStage.ENSURE_PXE_INTERFACE_AUTO
PXE_CIDR = "10.20.0.0/16"
SECOND_CIDR = "10.21.0.0/16"


async def ready(stand: Stand, pxe_subnet: str | None = None) -> Machine:
    machine = await machine_in(stand, Status.READY)
    begin(stand, pxe_subnet)
    return machine


def begin(stand: Stand, pxe_subnet: str | None = None) -> None:
    stand.use(network=NetworkSite(pxe_subnet=pxe_subnet))
    stand.onboards(STAGE)
    stand.world.observed.requests.clear()


def links(machine: Machine) -> list[tuple[str, str | None]]:
    return [(link.mode, link.subnet.cidr if link.subnet else None) for link in machine.interfaces[0].links]


def pxe(stand: Stand) -> Subnet:
    return stand.region.site.subnets[0]


def second(stand: Stand, vlan: Vlan | None = None) -> Subnet:
    """Another subnet, by default on the boot VLAN."""
    made = Subnet(id=9, name="second", cidr=SECOND_CIDR, gateway_ip=None, vlan=vlan or pxe(stand).vlan)
    stand.region.site.subnets.append(made)
    return made


def changes(stand: Stand) -> int:
    return stand.world.observed.operations.count("link_subnet")


# --- the goal


async def test_links_that_commissioning_set_up_are_not_changed(stand: Stand) -> None:
    await ready(stand)
    await done(stand)
    assert stand.world.observed.operations == ["machine"]


@pytest.mark.parametrize(
    "had",
    [
        [],
        [("link_up", None)],
        [("dhcp", None)],
        [("dhcp", PXE_CIDR)],
        [("static", PXE_CIDR)],
        [("auto", PXE_CIDR), ("auto", PXE_CIDR)],
        [("auto", PXE_CIDR), ("link_up", None)],
    ],
    ids=repr,
)
async def test_any_other_links_are_replaced_by_one_automatic_link(
    stand: Stand, had: list[tuple[str, str | None]]
) -> None:
    machine = await ready(stand)
    machine.interfaces[0].links = [
        Link(id=100 + number, mode=mode, subnet=pxe(stand) if cidr else None) for number, (mode, cidr) in enumerate(had)
    ]
    assert isinstance(await stand.once(), StageStep)
    assert links(machine) == [("auto", PXE_CIDR)]
    await done(stand)
    assert changes(stand) == 1


async def test_a_second_run_of_the_stage_sends_no_change(stand: Stand) -> None:
    machine = await ready(stand)
    machine.interfaces[0].links = []
    await done(stand)
    await done(stand)
    assert changes(stand) == 1


async def test_the_subnet_that_was_linked_is_kept_if_the_vlan_has_several(stand: Stand) -> None:
    machine = await ready(stand)
    other = second(stand)
    machine.interfaces[0].links = [Link(id=100, mode="dhcp", subnet=other)]
    await done(stand)
    assert links(machine) == [("auto", SECOND_CIDR)]


async def test_the_subnet_that_the_site_configures_is_linked(stand: Stand) -> None:
    machine = await ready(stand, SECOND_CIDR)
    second(stand)
    await done(stand)
    assert links(machine) == [("auto", SECOND_CIDR)]
    await done(stand)
    assert changes(stand) == 1


async def test_a_vlan_on_the_boot_interface_does_not_prevent_the_link(stand: Stand) -> None:
    machine = await ready(stand)
    boot = machine.interfaces[0]
    machine.interfaces.append(Interface(id=99, name="eno1.7", mac_address="", type="vlan", parents=[boot]))
    boot.links = []
    await done(stand)
    assert links(machine) == [("auto", PXE_CIDR)]


# --- failures that need an operator


def _no_interface(stand: Stand, machine: Machine) -> None:
    machine.interfaces = []


def _no_vlan(stand: Stand, machine: Machine) -> None:
    machine.interfaces[0].vlan, machine.interfaces[0].links = None, []


def _in_a(kind: str) -> Any:
    def made(stand: Stand, machine: Machine) -> None:
        parents = machine.interfaces[:2]
        machine.interfaces.append(Interface(id=99, name="up0", mac_address="", type=kind, parents=parents))

    return made


def _no_subnet(stand: Stand, machine: Machine) -> None:
    machine.interfaces[0].vlan, machine.interfaces[0].links = stand.region.site.spare, []


def _two_subnets(stand: Stand, machine: Machine) -> None:
    second(stand)
    machine.interfaces[0].links = []


def _elsewhere(stand: Stand, machine: Machine) -> None:
    stand.use(network=NetworkSite(pxe_subnet=SECOND_CIDR))
    second(stand, stand.region.site.spare)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_no_interface, "MAAS has no boot interface"),
        (_no_vlan, "eno1 is on no VLAN"),
        (_in_a("bond"), "eno1 is part of bond up0"),
        (_in_a("bridge"), "eno1 is part of bridge up0"),
        (_no_subnet, "eno1 is on VLAN 0 of fabric-0, which has no subnet"),
        (_two_subnets, f"set network.pxe_subnet of the site: {PXE_CIDR}, {SECOND_CIDR}"),
        (_elsewhere, f"network.pxe_subnet {SECOND_CIDR} is on another VLAN"),
    ],
)
async def test_a_boot_interface_that_cannot_be_linked_needs_an_operator(
    stand: Stand, spoil: Any, expected: str
) -> None:
    machine = await ready(stand)
    spoil(stand, machine)
    settled = await failed(stand)
    assert settled.failure is FailureClass.PXE_INTERFACE_UNFIXABLE
    assert expected in settled.detail
    assert changes(stand) == 0


async def test_a_subnet_that_the_region_does_not_have_is_invalid_configuration(stand: Stand) -> None:
    await ready(stand, "10.99.0.0/16")
    settled = await failed(stand)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert "no subnet 10.99.0.0/16; subnets: 10.20.0.0/16" in settled.detail


# --- failures


async def test_a_link_whose_response_was_lost_is_not_made_twice(stand: Stand) -> None:
    machine = await ready(stand)
    machine.interfaces[0].links = []
    lost = stand.region.faults.add(Fault(op="link_subnet", broken=Broken.DROP))
    assert isinstance(await stand.settle(), Waiting)
    assert lost.struck == 1
    await done(stand)
    assert changes(stand) == 1
    assert links(machine) == [("auto", PXE_CIDR)]


async def test_a_link_that_maas_accepts_but_does_not_show_is_requested_again_by_the_next_attempt(stand: Stand) -> None:
    machine = await ready(stand)
    machine.interfaces[0].links = []
    stand.region.faults.add(Fault(op="link_subnet", status=200, body=b"{}", content_type="application/json"))
    settled = await failed(stand)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert changes(stand) == 1
    stand.pass_time(timedelta(minutes=1))
    assert stand.node.workflow is not None
    stand.onboards(STAGE, memo=stand.node.workflow.memo, attempt=2)
    await done(stand)
    assert changes(stand) == 2
