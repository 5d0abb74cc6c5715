"""Stage `ensure_pxe_interface_auto`: gives the boot interface one automatic address from its subnet.

MAAS deploys over that interface and requires an address. One change replaces all links, so a repetition still leaves
one link. An ambiguous interface or subnet needs an operator.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, listed
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding.network.lookup import RegionPlaces, same_network
from farrier.handlers.node.onboarding.preparation import unready
from farrier.model.maas.changes import LinkMode, LinkSubnet
from farrier.model.maas.reading import Interface, Machine, StatusNumber, Subnet
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient


def ensure_pxe_interface_auto(node: Node, now: datetime, policy: Policy) -> StageResult:
    async def decide(machine: Machine, client: MaasClient) -> Settled | region.Send:
        if machine.status != StatusNumber.READY:
            return unready(node, machine)
        nic = _boot_interface(machine)
        if not isinstance(nic, Interface):
            return nic
        wanted = region.site_of(node, policy).network.pxe_subnet
        if _is_auto(nic, wanted):
            return Done(reason=f"{nic.name} gets its address automatically")
        subnet = _subnet(nic, wanted, RegionPlaces(vlans=(), subnets=await client.subnets()))
        if isinstance(subnet, Failed):
            return subnet
        link = LinkSubnet(interface=nic.id, mode=LinkMode.AUTO, subnet=subnet.id)
        return region.asking(node, now, link, f"link {nic.name}: auto, {subnet.cidr}")

    return region.with_machine(node, policy, decide, name="ensure_pxe_interface_auto")


def _boot_interface(machine: Machine) -> Interface | Failed:
    """Return the boot interface of the machine, if it can be linked."""
    nic = machine.boot_interface
    if nic is None:
        return _unfixable("MAAS has no boot interface of the machine")
    # The address would belong to the bond or bridge, and MAAS does not link the interfaces below a bond or bridge.
    above = [one for one in machine.interface_set if one.type in {"bond", "bridge"} and nic.name in one.parents]
    if above:
        return _unfixable(f"the boot interface {nic.name} is part of {above[0].type} {above[0].name}")
    if nic.vlan is None:
        return _unfixable(f"the boot interface {nic.name} is on no VLAN")
    return nic


def _is_auto(nic: Interface, wanted: str | None) -> bool:
    if len(nic.links) != 1 or nic.links[0].mode != LinkMode.AUTO.value:
        return False
    subnet = nic.links[0].subnet
    return subnet is not None and (wanted is None or same_network(subnet.cidr, wanted))


def _subnet(nic: Interface, wanted: str | None, places: RegionPlaces) -> Subnet | Failed:
    """Return the subnet from which the boot interface boots."""
    here = places.on(nic.vlan)
    if wanted is not None:
        return _of_site(nic, wanted, places, here)
    linked = {link.subnet.id for link in nic.links if link.subnet is not None}
    fit = [subnet for subnet in here if subnet.id in linked] or here
    if len(fit) == 1:
        return fit[0]
    if not fit:
        return _unfixable(f"{_place(nic)}, which has no subnet in MAAS")
    seen = listed(sorted(subnet.cidr or str(subnet.id) for subnet in fit))
    return _unfixable(f"{_place(nic)}, which has several subnets; set network.pxe_subnet of the site: {seen}")


def _of_site(nic: Interface, wanted: str, places: RegionPlaces, here: list[Subnet]) -> Subnet | Failed:
    fit = [subnet for subnet in here if same_network(subnet.cidr, wanted)]
    if len(fit) == 1:
        return fit[0]
    if any(same_network(subnet.cidr, wanted) for subnet in places.subnets):
        seen = listed(sorted(subnet.cidr or str(subnet.id) for subnet in here))
        return _unfixable(f"network.pxe_subnet {wanted} is on another VLAN: {_place(nic)}, with subnets: {seen}")
    seen = listed(sorted(subnet.cidr or str(subnet.id) for subnet in places.subnets))
    detail = f"network.pxe_subnet: the region has no subnet {wanted}; subnets: {seen}"
    return Failed(failure=FailureClass.INVALID_CONFIG, detail=detail)


def _place(nic: Interface) -> str:
    assert nic.vlan is not None, "checked by the caller"
    return f"the boot interface {nic.name} is on VLAN {nic.vlan.vid} of {nic.vlan.fabric or nic.vlan.fabric_id}"


def _unfixable(why: str) -> Failed:
    return Failed(failure=FailureClass.PXE_INTERFACE_UNFIXABLE, detail=why)
