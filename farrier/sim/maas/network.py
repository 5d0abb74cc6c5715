"""The operations on interfaces: links to subnets, bonds, VLAN interfaces, MTU.

Called by `app` for a machine the caller may change. Linking is as repeatable as the real thing, which is: not, unless
`force` clears first. Refusals are by status, by the form, and by addresses in use.
"""

from __future__ import annotations

from farrier.sim.maas import show_network
from farrier.sim.maas.call import Answer, Call, Refused, whole_number
from farrier.sim.maas.records import Interface, Link, Machine, Vlan
from farrier.sim.maas.region import Region
from farrier.sim.maas.statuses import NETWORK_EDITABLE, Status

_STATES = "interface because the machine is not New, Ready, Allocated, or Broken."
_NO_CHOICE = "Select a valid choice. That choice is not one of the available choices."


def _check(machine: Machine, doing: str, *, deployed_too: bool = False) -> None:
    if machine.status in NETWORK_EDITABLE or (deployed_too and machine.status is Status.DEPLOYED):
        return
    raise Refused(409, f"Cannot {doing} {_STATES}")


def found(machine: Machine, wanted: str) -> Interface:
    """By id or name. Raises Refused 404."""
    for interface in machine.interfaces:
        if wanted in {str(interface.id), interface.name}:
            return interface
    raise Refused(404, "No Interface matches the given query.")


def listed(region: Region, call: Call, machine: Machine) -> object:
    return [show_network.interface(machine, interface) for interface in machine.interfaces]


def update(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    """PUT: what is not given stays."""
    _check(machine, "update interface", deployed_too=True)
    vlan = call.one("vlan")
    if vlan:
        wanted = region.site.vlan(vlan)
        if wanted is None:
            raise Refused(400, {"vlan": [_NO_CHOICE]})
        _move(region, interface, wanted)
    mtu = call.one("mtu")
    if mtu:
        interface.params["mtu"] = whole_number(mtu, name="mtu")
        _fit(machine, interface)
    interface.name = call.one("name") or interface.name
    if call.one("tags") is not None:
        interface.tags = [tag for tag in (call.one("tags") or "").split(",") if tag]
    return show_network.interface(machine, interface)


def _move(region: Region, interface: Interface, vlan: Vlan) -> None:
    """To another VLAN: the links stay behind, and the ports of a bond go with it."""
    if interface.vlan is not vlan:
        _clear(region, interface)
    interface.vlan = vlan
    if interface.type == "bond":
        for parent in interface.parents:
            parent.vlan = vlan


def _fit(machine: Machine, interface: Interface) -> None:
    """What an interface lies on is as large as it, and what lies on it no larger, as far as their MTU is set."""
    mtu = interface.params.get("mtu")
    if not isinstance(mtu, int):
        return
    for other in machine.interfaces:
        own = other.params.get("mtu")
        if interface in other.parents and isinstance(own, int) and own > mtu:
            other.params["mtu"] = mtu
        if other in interface.parents and (not isinstance(own, int) or own < mtu):
            other.params["mtu"] = mtu


def delete(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    _check(machine, "delete interface")
    _clear(region, interface)
    if interface.type == "physical":
        region.macs.pop(interface.mac_address, None)
    machine.interfaces = [
        kept for kept in machine.interfaces if kept is not interface and interface not in kept.parents
    ]
    return Answer(status=204)


def link_subnet(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    _check(machine, "link subnet")
    mode, force = call.needed("mode").lower(), call.flag("force")
    if mode not in {"auto", "dhcp", "static", "link_up"}:
        raise Refused(400, {"mode": [f"Select a valid choice. {mode} is not one of the available choices."]})
    if any(interface in other.parents and other.type == "bond" for other in machine.interfaces):
        raise Refused(400, {"bond": [f"Cannot link interface({interface.name}) when interface is in a bond."]})
    link = _link(region, call, interface, mode=mode, force=force)
    if force:
        _clear(region, interface)
    elif mode == "link_up" and interface.links:
        raise Refused(400, {"mode": ["This interface cannot be set to LINK_UP while it has other links."]})
    if link.ip_address is not None:
        if link.ip_address in region.claimed:
            raise Refused(404, "IP address is already in use.")
        region.claimed.add(link.ip_address)
    if mode != "link_up":
        interface.links = [kept for kept in interface.links if kept.mode != "link_up"]
    interface.links.append(link)
    return show_network.interface(machine, interface)


def _link(region: Region, call: Call, interface: Interface, *, mode: str, force: bool) -> Link:
    wanted = call.one("subnet")
    subnet = region.site.subnet(wanted) if wanted else None
    if wanted and subnet is None:
        raise Refused(400, {"subnet": [_NO_CHOICE]})
    if mode in {"auto", "static"} and subnet is None:
        raise Refused(400, {"subnet": ["This field is required."]})
    if subnet is not None and interface.vlan is not subnet.vlan:
        if not force and interface.vlan is not None:
            raise Refused(400, {"subnet": [_NO_CHOICE]})
        interface.vlan = subnet.vlan
    address = call.one("ip_address") or None
    if mode == "static" and address is None and subnet is not None:
        address = region.free_address(subnet)
        region.claimed.discard(address)
    return Link(id=region.next_id("link"), mode=mode, subnet=subnet, ip_address=address if mode == "static" else None)


def _clear(region: Region, interface: Interface) -> None:
    for link in interface.links:
        region.claimed.discard(link.ip_address or "")
    interface.links = []


def unlink_subnet(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    _check(machine, "unlink subnet")
    wanted = whole_number(call.needed("id"), name="id")
    link = next((kept for kept in interface.links if kept.id == wanted), None)
    if link is None:
        raise Refused(400, {"id": [_NO_CHOICE]})
    region.claimed.discard(link.ip_address or "")
    interface.links.remove(link)
    return show_network.interface(machine, interface)


def disconnect(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    _check(machine, "disconnect")
    _clear(region, interface)
    return show_network.interface(machine, interface)


def create_bond(region: Region, call: Call, machine: Machine) -> object:
    _check(machine, "create bond")
    parents = _parents(call, machine, name="parents")
    taken = {parent.name for other in machine.interfaces for parent in other.parents}
    busy = [parent.name for parent in parents if parent.name in taken]
    if busy:
        raise Refused(400, {"parents": [f"Interfaces already in-use: {', '.join(busy)}."]})
    if len({parent.vlan.id if parent.vlan else None for parent in parents}) > 1:
        raise Refused(400, {"parents": ["All parents must belong to the same VLAN."]})
    for parent in parents:
        _clear(region, parent)
    params: dict[str, object] = {
        "bond_mode": call.one("bond_mode") or "active-backup",
        "bond_lacp_rate": call.one("bond_lacp_rate") or "fast",
        "bond_xmit_hash_policy": call.one("bond_xmit_hash_policy") or "layer2",
        "bond_miimon": int(call.one("bond_miimon") or 100),
        "bond_downdelay": 0,
        "bond_updelay": 0,
        "bond_num_grat_arp": 1,
    }
    return _made(region, call, machine, parents=parents, kind="bond", params=params)


def create_vlan(region: Region, call: Call, machine: Machine) -> object:
    _check(machine, "create VLAN")
    parents = _parents(call, machine, name="parent")
    if any(parents[0] in other.parents and other.type == "bond" for other in machine.interfaces):
        raise Refused(400, {"parent": ["A VLAN interface can't have a parent that is already in a bond."]})
    vlan, below = region.site.vlan(call.one("vlan") or ""), parents[0].vlan
    if vlan is not None and vlan.vid == 0:
        raise Refused(400, {"vlan": ["A VLAN interface can only belong to a tagged VLAN."]})
    if vlan is not None and (below is None or below.fabric_id != vlan.fabric_id):
        text = "A VLAN interface can only belong to a tagged VLAN on the same fabric as its parent interface."
        raise Refused(400, {"vlan": [text]})
    return _made(region, call, machine, parents=parents, kind="vlan", params={})


def _parents(call: Call, machine: Machine, *, name: str) -> list[Interface]:
    wanted = call.many(name)
    parents = [one for one in machine.interfaces if str(one.id) in wanted]
    if not wanted:
        raise Refused(400, {name: ["This field is required."]})
    if len(parents) != len(set(wanted)):
        raise Refused(400, {name: [_NO_CHOICE]})
    return parents


def _made(
    region: Region, call: Call, machine: Machine, *, parents: list[Interface], kind: str, params: dict[str, object]
) -> object:
    wanted = call.one("vlan")
    vlan = region.site.vlan(wanted) if wanted else parents[0].vlan
    if wanted and vlan is None:
        raise Refused(400, {"vlan": [_NO_CHOICE]})
    tagged = f"{parents[0].name}.{vlan.vid if vlan else 0}"
    name = tagged if kind == "vlan" else call.one("name")
    if not name:
        raise Refused(400, {"name": ["This field is required."]})
    if any(other.name == name for other in machine.interfaces):
        raise Refused(400, {"name": [f"{machine.hostname} already has an interface named '{name}'."]})
    if call.one("mtu"):
        params["mtu"] = whole_number(call.needed("mtu"), name="mtu")
    made = Interface(
        id=region.next_id("interface"),
        name=name,
        mac_address=call.one("mac_address") or parents[0].mac_address,
        type=kind,
        vlan=vlan,
        parents=parents,
        params=params,
        link_speed=sum(parent.link_speed for parent in parents),
    )
    made.links = [Link(id=region.next_id("link"), mode="link_up")]
    machine.interfaces.append(made)
    _fit(machine, made)
    if kind == "bond" and vlan is not None:
        _move(region, made, vlan)
    return show_network.interface(machine, made)
