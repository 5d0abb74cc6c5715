"""Stage `ensure_pxe_interface_auto`: gives the boot interface one automatic link, or reports why it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
from tests.support.stages import Stand, done, failed, open_stand

STAGE = OnboardingStage.ENSURE_PXE_INTERFACE_AUTO
PXE_CIDR = "10.20.0.0/16"
SECOND_CIDR = "10.21.0.0/16"


@pytest.fixture
async def at() -> AsyncIterator[Stand]:
    async with open_stand() as stand:
        yield stand


async def ready(at: Stand, pxe_subnet: str | None = None) -> Machine:
    machine = await machine_in(at, Status.READY)
    begin(at, pxe_subnet)
    return machine


def begin(at: Stand, pxe_subnet: str | None = None) -> None:
    at.use(network=NetworkSite(pxe_subnet=pxe_subnet))
    at.onboards(STAGE)
    at.world.observed.requests.clear()


def links(machine: Machine) -> list[tuple[str, str | None]]:
    return [(link.mode, link.subnet.cidr if link.subnet else None) for link in machine.interfaces[0].links]


def pxe(at: Stand) -> Subnet:
    return at.region.site.subnets[0]


def second(at: Stand, vlan: Vlan | None = None) -> Subnet:
    """Another subnet, by default on the boot VLAN."""
    made = Subnet(id=9, name="second", cidr=SECOND_CIDR, gateway_ip=None, vlan=vlan or pxe(at).vlan)
    at.region.site.subnets.append(made)
    return made


def changes(at: Stand) -> int:
    return at.world.observed.operations.count("link_subnet")


# --- the goal


async def test_links_that_commissioning_set_up_are_not_changed(at: Stand) -> None:
    await ready(at)
    await done(at)
    assert at.world.observed.operations == ["machine"]


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
async def test_any_other_links_are_replaced_by_one_automatic_link(at: Stand, had: list[tuple[str, str | None]]) -> None:
    machine = await ready(at)
    machine.interfaces[0].links = [
        Link(id=100 + number, mode=mode, subnet=pxe(at) if cidr else None) for number, (mode, cidr) in enumerate(had)
    ]
    assert isinstance(await at.once(), StageStep)
    assert links(machine) == [("auto", PXE_CIDR)]
    await done(at)
    assert changes(at) == 1


async def test_a_second_run_of_the_stage_sends_no_change(at: Stand) -> None:
    machine = await ready(at)
    machine.interfaces[0].links = []
    await done(at)
    await done(at)
    assert changes(at) == 1


async def test_the_subnet_that_was_linked_is_kept_if_the_vlan_has_several(at: Stand) -> None:
    machine = await ready(at)
    other = second(at)
    machine.interfaces[0].links = [Link(id=100, mode="dhcp", subnet=other)]
    await done(at)
    assert links(machine) == [("auto", SECOND_CIDR)]


async def test_the_subnet_that_the_site_configures_is_linked(at: Stand) -> None:
    machine = await ready(at, SECOND_CIDR)
    second(at)
    await done(at)
    assert links(machine) == [("auto", SECOND_CIDR)]
    await done(at)
    assert changes(at) == 1


async def test_a_vlan_on_the_boot_interface_does_not_prevent_the_link(at: Stand) -> None:
    machine = await ready(at)
    boot = machine.interfaces[0]
    machine.interfaces.append(Interface(id=99, name="eno1.7", mac_address="", type="vlan", parents=[boot]))
    boot.links = []
    await done(at)
    assert links(machine) == [("auto", PXE_CIDR)]


# --- failures that need an operator


def _no_interface(at: Stand, machine: Machine) -> None:
    machine.interfaces = []


def _no_vlan(at: Stand, machine: Machine) -> None:
    machine.interfaces[0].vlan, machine.interfaces[0].links = None, []


def _in_a(kind: str) -> Any:
    def made(at: Stand, machine: Machine) -> None:
        parents = machine.interfaces[:2]
        machine.interfaces.append(Interface(id=99, name="up0", mac_address="", type=kind, parents=parents))

    return made


def _no_subnet(at: Stand, machine: Machine) -> None:
    machine.interfaces[0].vlan, machine.interfaces[0].links = at.region.site.spare, []


def _two_subnets(at: Stand, machine: Machine) -> None:
    second(at)
    machine.interfaces[0].links = []


def _elsewhere(at: Stand, machine: Machine) -> None:
    at.use(network=NetworkSite(pxe_subnet=SECOND_CIDR))
    second(at, at.region.site.spare)


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
async def test_a_boot_interface_that_cannot_be_linked_needs_an_operator(at: Stand, spoil: Any, expected: str) -> None:
    machine = await ready(at)
    spoil(at, machine)
    settled = await failed(at)
    assert settled.failure is FailureClass.PXE_INTERFACE_UNFIXABLE
    assert expected in settled.detail
    assert changes(at) == 0


async def test_a_subnet_that_the_region_does_not_have_is_invalid_configuration(at: Stand) -> None:
    await ready(at, "10.99.0.0/16")
    settled = await failed(at)
    assert settled.failure is FailureClass.INVALID_CONFIG
    assert "no subnet 10.99.0.0/16; subnets: 10.20.0.0/16" in settled.detail


# --- failures


async def test_a_link_whose_response_was_lost_is_not_made_twice(at: Stand) -> None:
    machine = await ready(at)
    machine.interfaces[0].links = []
    lost = at.region.faults.add(Fault(op="link_subnet", broken=Broken.DROP))
    assert isinstance(await at.settle(), Waiting)
    assert lost.struck == 1
    await done(at)
    assert changes(at) == 1
    assert links(machine) == [("auto", PXE_CIDR)]


async def test_a_link_that_maas_accepts_but_does_not_show_is_requested_again_by_the_next_attempt(at: Stand) -> None:
    machine = await ready(at)
    machine.interfaces[0].links = []
    at.region.faults.add(Fault(op="link_subnet", status=200, body=b"{}", content_type="application/json"))
    settled = await failed(at)
    assert settled.failure is FailureClass.UPSTREAM_ERROR
    assert changes(at) == 1
    at.pass_time(timedelta(minutes=1))
    assert at.node.workflow is not None
    at.onboards(STAGE, memo=at.node.workflow.memo, attempt=2)
    await done(at)
    assert changes(at) == 2
