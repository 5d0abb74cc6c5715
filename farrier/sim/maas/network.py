"""The operations on interfaces: links to subnets, bonds, VLAN interfaces, MTU.

As in MAAS, a repeated request adds another link, unless `force` removes the existing links first.
"""

from __future__ import annotations

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import show
from farrier.sim.maas.http.call import Call, Refused
from farrier.sim.maas.records import Interface, Link, Machine, Vlan
from farrier.sim.maas.region import Region
from farrier.sim.maas.statuses import NETWORK_EDITABLE

_STATES = "interface because the machine is not New, Ready, Allocated, or Broken."
_OTHER_LINKS = (
    "Cannot configure interface to link up (with no IP address) while other links are already configured. Specify "
    "force=True to override this behavior and delete all links."
)
_NO_CHOICE = "Select a valid choice. That choice is not one of the available choices."


def _check(machine: Machine, doing: str, *, deployed_too: bool = False) -> None:
    if machine.status in NETWORK_EDITABLE or (deployed_too and machine.status is Status.DEPLOYED):
        return
    raise Refused(409, f"Cannot {doing} {_STATES}")


def found(machine: Machine, wanted: str) -> Interface:
    """Return an interface by ID or name. Raises Refused 404."""
    for interface in machine.interfaces:
        if wanted in {str(interface.id), interface.name}:
            return interface
    raise Refused(404, "No Interface matches the given query.")


def update(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    """Change the given fields and keep all others."""
    _check(machine, "update interface", deployed_too=True)
    call.check()
    vlan = call.one("vlan")
    if vlan:
        wanted = region.site.vlan(vlan)
        if wanted is None:
            raise Refused(400, {"vlan": [_NO_CHOICE]})
        _move(region, interface, wanted)
    _set_mtu(call, interface.params)
    _fit(machine, interface)
    interface.name = call.one("name") or interface.name
    if call.one("tags") is not None:
        interface.tags = [tag for tag in (call.one("tags") or "").split(",") if tag]
    return show.interface(machine, interface)


def _set_mtu(call: Call, params: dict[str, object]) -> None:
    """Set the given MTU; an empty text removes it (maasserver/forms/interface.py:210)."""
    mtu = call.number("mtu")
    if mtu is not None:
        params["mtu"] = mtu
    elif call.one("mtu") == "":
        params.pop("mtu", None)


def _move(region: Region, interface: Interface, vlan: Vlan) -> None:
    """Move an interface to another VLAN. The interface loses its links, and the ports of a bond move with the bond."""
    if interface.vlan is not vlan:
        region.clear_links(interface)
    interface.vlan = vlan
    if interface.type == "bond":
        for parent in interface.parents:
            parent.vlan = vlan


def _fit(machine: Machine, interface: Interface) -> None:
    """Adapt other MTUs to the interface's: raise smaller ones of parents, and lower greater ones of children."""
    mtu = interface.params.get("mtu")
    if not isinstance(mtu, int):
        return
    for other in machine.interfaces:
        own = other.params.get("mtu")
        if interface in other.parents and isinstance(own, int) and own > mtu:
            other.params["mtu"] = mtu
        if other in interface.parents and (not isinstance(own, int) or own < mtu):
            other.params["mtu"] = mtu


def link_subnet(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    force = call.flag("force")
    _check(machine, "link subnet")
    call.check()
    mode = call.needed("mode")
    bond = next((other for other in machine.interfaces if interface in other.parents and other.type == "bond"), None)
    if bond is not None:
        text = f"Cannot link interface({interface.name}) when interface is in a bond({bond.name})."
        raise Refused(400, {"bond": [text]})
    if call.flag("default_gateway") and mode not in {"auto", "static"}:
        raise Refused(400, {"default_gateway": [f"Cannot use in mode '{mode}'."]})
    link = _link(region, call, interface, mode=mode, force=force)
    if force:
        region.clear_links(interface)
    elif mode == "link_up" and any(kept.mode != "link_up" for kept in interface.links):
        raise Refused(400, {"mode": [_OTHER_LINKS]})
    if link.ip_address is not None:
        if link.ip_address in region.claimed:
            raise Refused(404, "IP address is already in use.")
        region.claimed.add(link.ip_address)
    if mode != "link_up":
        interface.links = [kept for kept in interface.links if kept.mode != "link_up"]
    interface.links.append(link)
    return show.interface(machine, interface)


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


def unlink_subnet(region: Region, call: Call, machine: Machine, interface: Interface) -> object:
    _check(machine, "unlink subnet")
    call.check()
    wanted = call.needed("id")
    link = next((kept for kept in interface.links if str(kept.id) == wanted), None)
    if link is None:
        choices = ", ".join(f"'{kept.id}'" for kept in interface.links)
        raise Refused(400, {"id": [f"'{wanted}' is not a valid id.  It should be one of: {choices}."]})
    region.claimed.discard(link.ip_address or "")
    interface.links.remove(link)
    return show.interface(machine, interface)


# The defaults of a bond (maasserver/forms/interface.py:533-543).
_BOND_NUMBERS = {"bond_miimon": 100, "bond_downdelay": 0, "bond_updelay": 0, "bond_num_grat_arp": 1}


def _or(number: int | None, usual: int) -> int:
    return usual if number is None else number


def create_bond(region: Region, call: Call, machine: Machine) -> object:
    _check(machine, "create bond")
    call.check()
    parents = _parents(call, machine, name="parents")
    if not parents:
        blank = {} if call.one("mac_address") else {"mac_address": ["This field cannot be blank."]}
        raise Refused(400, {"parents": ["A bond interface must have one or more parents."], **blank})
    taken = {parent.name for other in machine.interfaces for parent in other.parents}
    busy = [parent.name for parent in parents if parent.name in taken]
    if busy:
        raise Refused(400, {"parents": [f"Interfaces already in-use: {', '.join(busy)}."]})
    if len({parent.vlan.id if parent.vlan else None for parent in parents}) > 1:
        raise Refused(400, {"parents": ["All parents must belong to the same VLAN."]})
    for parent in parents:
        region.clear_links(parent)
    params: dict[str, object] = {
        "bond_mode": call.one("bond_mode") or "balance-rr",
        "bond_lacp_rate": call.one("bond_lacp_rate") or "fast",
        "bond_xmit_hash_policy": call.one("bond_xmit_hash_policy") or "layer2",
        **{name: _or(call.number(name), usual) for name, usual in _BOND_NUMBERS.items()},
    }
    return _made(region, call, machine, parents=parents, kind="bond", params=params)


def create_vlan(region: Region, call: Call, machine: Machine) -> object:
    _check(machine, "create VLAN")
    call.check()
    parents = _parents(call, machine, name="parent")
    if len(parents) != 1:
        raise Refused(400, {"parent": ["A VLAN interface must have exactly one parent."]})
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
    wanted = [one for one in call.many(name) if one]
    known = {str(one.id): one for one in machine.interfaces}
    unknown = next((one for one in wanted if one not in known), None)
    if unknown is not None:
        raise Refused(400, {name: [f"Select a valid choice. {unknown} is not one of the available choices."]})
    return [one for one in machine.interfaces if str(one.id) in wanted]


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
    _set_mtu(call, params)
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
    return show.interface(machine, made)
