"""A site that configures every part of a machine's set-up, and a region in which all of it can be applied.

Used by tests that make each change fail. The parts are a boot disk, a storage layout, a bond, a VLAN, an interface
with an address, and a boot interface that commissioning leaves without an address.
"""

from __future__ import annotations

import msgspec

from farrier.config.sites import NetworkSite
from farrier.sim.maas import Hardware, Nature, Nic, Region, Status
from farrier.sim.maas.records import Machine as Record
from farrier.sim.maas.records import Subnet, Vlan
from tests.support.onboarded import QUICK, UNSYNCED

NETWORK = {
    "bonds": [
        {
            "name": "bond0",
            "ports": ["enp1s0f*"],
            "mtu": 9000,
            "link": {"mode": "auto", "subnet": "10.30.0.0/16"},
            "vlans": [
                {"vid": 300, "link": {"mode": "static", "subnet": "10.31.0.0/16", "addresses": {"gpu-1": "10.31.0.7"}}}
            ],
        }
    ],
    "ports": [{"match": "enp2s0", "mtu": 9000, "link": {"mode": "auto", "subnet": "10.30.0.0/16"}}],
}
DEMANDING = msgspec.structs.replace(UNSYNCED, network=msgspec.convert(NETWORK, NetworkSite))
PORTS = ("eno1", "enp1s0f0np0", "enp1s0f1np1", "enp2s0")
ON_THE_WAY_IN = {
    "create",
    "commission",
    "set_boot_disk",
    "set_storage_layout",
    "update_interface",
    "create_bond",
    "create_vlan",
    "link_subnet",
    "deploy",
}
# Changes that do harm, or that MAAS refuses, when they are sent a second time.
ONLY_ONCE = ("create", "commission", "create_bond", "create_vlan", "deploy", "release", "delete")


def demanding_region() -> Region:
    """A region with the networks that the site configures, whose machines have the ports."""
    region = Region(durations=QUICK, nature=Nature(hardware=Hardware(nics=tuple(Nic(name=name) for name in PORTS))))
    storage = Vlan(id=5300, fabric_id=0, vid=300)
    region.site.subnets.append(Subnet(id=4, name="storage", cidr="10.31.0.0/16", gateway_ip=None, vlan=storage))
    region.on_move.append(_without_address)
    return region


def _without_address(machine: Record, before: Status) -> None:
    """Commissioning leaves the boot interface without an address."""
    if before is Status.COMMISSIONING and machine.status is Status.READY:
        machine.interfaces[0].links[0].mode = "link_up"


def is_set_up_once(machine: Record) -> None:
    names = [interface.name for interface in machine.interfaces]
    assert sorted(names) == sorted({*PORTS, "bond0", "bond0.300"})
    links = {interface.name: [link.mode for link in interface.links] for interface in machine.interfaces}
    assert links["bond0"] == links["enp2s0"] == links["eno1"] == ["auto"]
    assert links["bond0.300"] == ["static"]
    boot = machine.boot_disk()
    assert boot is not None and boot.model == "DELLBOSS VD" and boot.partition is not None
