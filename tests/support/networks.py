"""A machine with a boot NIC and four ports, on a stand at stage `apply_roce_phase2`, and queries of its interfaces."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from farrier.config.sites import NetworkSite
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Hardware, Nature, Nic, Status
from farrier.sim.maas.records import Interface, Machine, Subnet, Vlan
from tests.support.maas import COMMISSION
from tests.support.machines import created
from tests.support.stages import Stand

MUTATIONS = {"create_bond", "create_vlan", "update_interface", "link_subnet"}
PORTS = ("enp1s0f0np0", "enp1s0f1np1", "enp2s0", "enp3s0")
STORAGE = Vlan(id=5300, fabric_id=0, vid=300)


async def ready(at: Stand, tables: dict[str, Any]) -> Machine:
    """A commissioned machine with a boot NIC and four ports, in a region with a storage VLAN."""
    at.region.site.subnets.append(Subnet(id=4, name="storage", cidr="10.31.0.0/16", gateway_ip=None, vlan=STORAGE))
    nics = (Nic(name="eno1"), *(Nic(name=name) for name in PORTS))
    at.region.natures[at.node.name] = Nature(hardware=Hardware(nics=nics))
    machine = await created(at)
    await at.world.client.do(await at.world.client.machine(machine.system_id), COMMISSION)
    at.region.advance(timedelta(hours=1))
    assert machine.status is Status.READY
    begin(at, tables)
    return machine


def begin(at: Stand, tables: dict[str, Any]) -> None:
    at.use(network=msgspec.convert(tables, NetworkSite))
    at.onboards(OnboardingStage.APPLY_ROCE_PHASE2)
    at.world.observed.requests.clear()


def changes(at: Stand) -> list[str]:
    return [operation for operation in at.world.observed.operations if operation in MUTATIONS]


def named(machine: Machine, name: str) -> Interface:
    return next(one for one in machine.interfaces if one.name == name)


def links(machine: Machine, name: str) -> list[tuple[str, str | None, str | None]]:
    return [
        (link.mode, link.subnet.cidr if link.subnet else None, link.ip_address) for link in named(machine, name).links
    ]
