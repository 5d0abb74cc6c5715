"""Stage `apply_roce_phase2`: allocates the node's addresses and memberships, and configures bonds, VLANs, MTU and links
for the site's fabric.

Module `uses` makes the allocations. For the configuration, each run reads the machine and the region's
networks, plans the missing changes (`plan`), and requests the first missing change. If the plan is empty, the
stage is done. The stage changes only a ready machine. A site without network tables has nothing to configure. If the
tables do not fit this machine, the stage fails and changes nothing.
"""

from __future__ import annotations

from datetime import datetime

from farrier.config.sites import NetworkSite
from farrier.errors import ConfigError
from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding.network import uses
from farrier.handlers.node.onboarding.network.lookup import RegionPlaces, nearby
from farrier.handlers.node.onboarding.network.plan import MissingChange, SeenNetwork, plan
from farrier.handlers.node.onboarding.preparation import unready
from farrier.model.maas.reading import Machine, StatusNumber
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient


def apply_roce_phase2(node: Node, now: datetime, policy: Policy) -> StageResult:
    site = region.site_of(node, policy)
    network = site.network
    waits = uses.held_up(node, site, now)
    if waits is not None:
        return waits
    has = uses.in_use(node)
    if not network.ports and not network.bonds:
        if has:
            return Done(reason=f"the machine has {has}; the site configures no ports and no bonds")
        return Done(reason="the site configures no network", skipped="the site configures no network")

    async def decide(machine: Machine, client: MaasClient) -> Settled | region.Send:
        if machine.status != StatusNumber.READY:
            return unready(node, machine)
        try:
            return _next(node, now, await _missing(machine, client, network, node.name))
        except ConfigError as problem:
            return Failed(failure=FailureClass.INVALID_CONFIG, detail=str(problem))

    return region.with_machine(node, policy, decide, name="apply_roce_phase2")


async def _missing(machine: Machine, client: MaasClient, network: NetworkSite, name: str) -> tuple[MissingChange, ...]:
    """Return the changes that the machine's network still needs. Raises `ConfigError`."""
    subnets = await client.subnets()
    try:
        return plan(_seen(machine, nearby(machine.interface_set, subnets)), network, name)
    except ConfigError:
        # The list of all VLANs is long, because many fabrics have only one NIC. Read it only if neither the machine nor
        # a subnet has the VLAN.
        return plan(_seen(machine, RegionPlaces(vlans=await client.vlans(), subnets=subnets)), network, name)


def _seen(machine: Machine, places: RegionPlaces) -> SeenNetwork:
    boot = machine.boot_interface.id if machine.boot_interface is not None else None
    return SeenNetwork(interfaces=machine.interface_set, boot=boot, places=places)


def _next(node: Node, now: datetime, missing: tuple[MissingChange, ...]) -> Settled | region.Send:
    if not missing:
        return Done(reason="the network matches the configuration of the site")
    return region.asking(node, now, missing[0].change, missing[0].what)
