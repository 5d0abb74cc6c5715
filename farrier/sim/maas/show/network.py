"""Shows networks as MAAS does: VLANs, subnets and interfaces, with exactly the recorded fields.

Every response with a VLAN, a subnet or an interface uses this module, which only reads.
"""

from __future__ import annotations

from farrier.sim.maas.records import Interface, Link, Machine, Subnet, Vlan


def vlan(shown: Vlan) -> dict[str, object]:
    return {
        "vid": shown.vid,
        "mtu": shown.mtu,
        "dhcp_on": shown.dhcp_on,
        "external_dhcp": None,
        "relay_vlan": None,
        "fabric": f"fabric-{shown.fabric_id}",
        "space": "undefined",
        "fabric_id": shown.fabric_id,
        "secondary_rack": None,
        "name": shown.name,
        "id": shown.id,
        "primary_rack": shown.primary_rack,
        "resource_uri": f"/MAAS/api/2.0/vlans/{shown.id}/",
    }


def subnet(shown: Subnet) -> dict[str, object]:
    return {
        "name": shown.name,
        "description": "",
        "vlan": vlan(shown.vlan),
        "cidr": shown.cidr,
        "rdns_mode": 2,
        "gateway_ip": shown.gateway_ip,
        "dns_servers": shown.dns_servers,
        "allow_dns": True,
        "allow_proxy": True,
        "active_discovery": False,
        "managed": True,
        "disabled_boot_architectures": [],
        "space": "undefined",
        "id": shown.id,
        "resource_uri": f"/MAAS/api/2.0/subnets/{shown.id}/",
    }


def interface(owner: Machine, shown: Interface) -> dict[str, object]:
    children = [other.name for other in owner.interfaces if shown in other.parents]
    return {
        "system_id": owner.system_id,
        "name": shown.name,
        "type": shown.type,
        "mac_address": shown.mac_address,
        "vlan": vlan(shown.vlan) if shown.vlan else None,
        "links": [_link(link) for link in shown.links],
        "discovered": _discovered(shown),
        "effective_mtu": _mtu(shown),
        "enabled": True,
        "params": shown.params,
        "parents": [parent.name for parent in shown.parents],
        "children": children,
        "tags": shown.tags,
        "link_connected": True,
        "link_speed": shown.link_speed,
        "interface_speed": shown.link_speed,
        "vendor": shown.vendor,
        "product": shown.product,
        "firmware_version": shown.firmware_version,
        "numa_node": 0,
        "sriov_max_vf": 0,
        "id": shown.id,
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/interfaces/{shown.id}/",
    }


def _mtu(shown: Interface) -> object:
    own = shown.params.get("mtu")
    return own if own is not None else (shown.vlan.mtu if shown.vlan else 1500)


def _link(shown: Link) -> dict[str, object]:
    view: dict[str, object] = {"id": shown.id, "mode": shown.mode}
    if shown.ip_address is not None:
        view["ip_address"] = shown.ip_address
    if shown.subnet is not None:
        view["subnet"] = subnet(shown.subnet)
    return view


def _discovered(shown: Interface) -> list[dict[str, object]] | None:
    if shown.discovered is None:
        return None
    seen, address = shown.discovered
    return [{"subnet": subnet(seen), "ip_address": address}]
