"""The objects of a region that are not machines: networks, zones, pools, images, version.

Tests add networks to the `Site`. The responses are those of a recorded real region.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from farrier.sim.maas.records import Subnet, Vlan

VERSION = "3.7.3"
_CAPABILITIES = [
    "networks-management",
    "static-ipaddresses",
    "ipv6-deployment-ubuntu",
    "devices-management",
    "storage-deployment-ubuntu",
    "network-deployment-ubuntu",
    "bridging-interface-ubuntu",
    "bridging-automatic-ubuntu",
    "authenticate-api",
]


def _networks() -> list[Subnet]:
    pxe = Vlan(id=5001, fabric_id=1, dhcp_on=True, primary_rack="eb63fw")
    roce = Vlan(id=5002, fabric_id=0, vid=200, name="roce", mtu=9000)
    servers = ["89.44.114.238"]
    return [
        Subnet(id=2, name="pxe", cidr="10.20.0.0/16", gateway_ip="10.20.0.1", vlan=pxe, dns_servers=servers),
        Subnet(id=3, name="roce", cidr="10.30.0.0/16", gateway_ip=None, vlan=roce),
    ]


@dataclass(kw_only=True)
class Site:
    """The objects of a region that are not machines. Machines boot from the first subnet. All other NICs are on VLAN
    `spare`. The VLANs in `spares` have no NICs."""

    subnets: list[Subnet] = field(default_factory=_networks)
    spare: Vlan = field(default_factory=lambda: Vlan(id=5004, fabric_id=0))
    spares: list[Vlan] = field(default_factory=list)
    zones: list[str] = field(default_factory=lambda: ["default"])
    pools: list[str] = field(default_factory=lambda: ["default"])
    osystem: str = "ubuntu"
    series: tuple[str, ...] = ("noble", "jammy")
    """The images; the first is the default."""
    architectures: tuple[str, ...] = ("amd64/generic",)
    erases_on_release: bool = False
    """MAAS's setting `enable_disk_erasing_on_release`."""

    def vlans(self) -> list[Vlan]:
        known = {subnet.vlan.id: subnet.vlan for subnet in self.subnets} | {
            vlan.id: vlan for vlan in (self.spare, *self.spares)
        }
        return list(known.values())

    def vlan(self, wanted: str) -> Vlan | None:
        return next((vlan for vlan in self.vlans() if str(vlan.id) == wanted), None)

    def subnet(self, wanted: str) -> Subnet | None:
        """Return a subnet by ID, name or CIDR. A prefix `name:` or `cidr:` is accepted and ignored."""
        plain = wanted.removeprefix("cidr:").removeprefix("name:")
        return next((found for found in self.subnets if plain in {str(found.id), found.name, found.cidr}), None)

    def zone(self, name: str) -> dict[str, object]:
        uri = f"/MAAS/api/2.0/zones/{name}/"
        return {"name": name, "description": "", "id": self.zones.index(name) + 1, "resource_uri": uri}

    def pool(self, name: str) -> dict[str, object]:
        number = self.pools.index(name)
        description = "Default pool" if number == 0 else ""
        uri = f"/MAAS/api/2.0/resourcepool/{number}/"
        return {"name": name, "description": description, "id": number, "resource_uri": uri}


def domain(name: str) -> dict[str, object]:
    return {
        "authoritative": True,
        "ttl": None,
        "is_default": True,
        "id": 0,
        "name": name,
        "resource_record_count": 0,
        "resource_uri": "/MAAS/api/2.0/domains/0/",
    }


def version() -> dict[str, object]:
    return {"version": VERSION, "subversion": "", "capabilities": _CAPABILITIES}


def address_in(subnet: Subnet, number: int) -> str:
    """Return the `number`-th address of a subnet; after the last address, it starts over. Lower addresses are reserved
    for routers and racks."""
    network = ipaddress.ip_network(subnet.cidr)
    return str(network.network_address + min(50, network.num_addresses // 2) + number % addresses_of(subnet))


def addresses_of(subnet: Subnet) -> int:
    """Return how many addresses of a subnet can be allocated."""
    network = ipaddress.ip_network(subnet.cidr)
    return max(network.num_addresses - 1 - min(50, network.num_addresses // 2), 1)
