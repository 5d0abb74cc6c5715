"""Plans, in the order of the requests, the changes that make a machine's network match its site's tables.

Stage `apply_roce_phase2` requests the first change, then plans again. Pure and idempotent. A plan contains only changes
that the region does not show yet; if the plan is empty, the network matches the tables. A change that depends on a
missing interface, such as a VLAN on a bond, is planned after the interface exists. A plan never removes anything: if a
bond of other ports exists, `ConfigError` is raised.

If a table matches nothing or two tables contradict each other, `ConfigError` is raised, so that farrier does not apply
only some of the tables. A table selects the boot interface only by its exact name, so that no glob moves the machine
off the network from which it is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from farrier.config.sites import BondSite, NetworkSite, PortSite, VlanSite
from farrier.errors import ConfigError
from farrier.handlers.node.changes import listed
from farrier.handlers.node.onboarding.network.lookup import RegionPlaces, TablePlace, WantedLink
from farrier.model.maas.changes import Change, CreateBond, CreateVlan, LinkMode, LinkSubnet, UpdateInterface
from farrier.model.maas.reading import Interface, Vlan

_WITH_LACP = frozenset({"802.3ad"})
_WITH_HASH = frozenset({"802.3ad", "balance-xor", "balance-tlb"})
_REMOVE_IT = "remove it in MAAS, or commission the machine again"


class Bonded(msgspec.Struct, frozen=True, kw_only=True):
    """A bond, and its ports by ID."""

    table: str
    bond: BondSite
    ports: tuple[Interface, ...]


class NetworkPort(msgspec.Struct, frozen=True, kw_only=True):
    """A single port, or a port of a bond if the port's table sets an MTU."""

    table: str
    want: PortSite
    interface: Interface


class SeenNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's network as the region shows it. `boot` is the ID of the boot interface."""

    interfaces: tuple[Interface, ...]
    boot: int | None
    places: RegionPlaces

    def named(self, name: str) -> Interface | None:
        return next((one for one in self.interfaces if one.name == name), None)


class MissingChange(msgspec.Struct, frozen=True):
    """A change that the region does not show yet, and a description of its purpose."""

    change: Change
    what: str


def plan(seen: SeenNetwork, network: NetworkSite, node: str) -> tuple[MissingChange, ...]:
    """Return the missing changes. Raises ConfigError if the tables do not fit this machine or this region."""
    ports, bonds = _resolved(network, seen.interfaces, seen.boot)
    bonded = {one.id for bond in bonds for one in bond.ports}
    missing: list[MissingChange] = []
    for port in ports:
        missing += _of_port(seen, port, node, alone=port.interface.id not in bonded)
    for bond in bonds:
        missing += _of_bond(seen, bond, node)
    return tuple(missing)


def _of_port(seen: SeenNetwork, port: NetworkPort, node: str, *, alone: bool) -> Iterator[MissingChange]:
    interface, want = port.interface, port.want
    if not alone:
        yield from _settings(interface, interface.vlan, want.mtu)
        return
    _not_bonded(seen, interface, port.table)
    place = TablePlace(table=port.table, vid=want.vlan, fabric=want.fabric, link=want.link)
    yield from _of_interface(seen, interface, place, mtu=want.mtu, vlans=want.vlans, node=node)


def _of_bond(seen: SeenNetwork, bonded: Bonded, node: str) -> Iterator[MissingChange]:
    bond = bonded.bond
    place = TablePlace(table=bonded.table, vid=bond.vlan, fabric=bond.fabric, link=bond.link)
    there = seen.named(bond.name)
    if there is None:
        yield from _create(seen, bonded, place, node)
        return
    _check_same(there, bonded)
    yield from _of_interface(seen, there, place, mtu=bond.mtu, vlans=bond.vlans, node=node)


def _create(seen: SeenNetwork, bonded: Bonded, place: TablePlace, node: str) -> Iterator[MissingChange]:
    bond = bonded.bond
    for one in bonded.ports:
        _not_bonded(seen, one, bonded.table)
    vlan = _vlan_of_ports(seen, bonded, place)
    _check_later(seen, place, vlan, bond, node)
    if len({_id(one.vlan) for one in bonded.ports}) > 1:  # MAAS bonds only interfaces on the same VLAN
        for one in bonded.ports:
            yield from _settings(one, vlan, None)
    create = CreateBond(
        name=bond.name,
        parents=tuple(one.id for one in bonded.ports),
        mode=bond.mode,
        lacp_rate=bond.lacp_rate if bond.mode in _WITH_LACP else None,
        xmit_hash_policy=bond.xmit_hash_policy if bond.mode in _WITH_HASH else None,
        mtu=bond.mtu,
        vlan=None if vlan is None else vlan.id,
    )
    yield MissingChange(create, f"bond {listed(one.name for one in bonded.ports)} to {bond.name}")


def _vlan_of_ports(seen: SeenNetwork, bonded: Bonded, place: TablePlace) -> Vlan | None:
    """Return the VLAN of a bond that does not exist yet."""
    together = {_id(one.vlan) for one in bonded.ports}
    near = bonded.ports[0].vlan if len(together) == 1 else None
    vlan = seen.places.untagged(place, near)
    if vlan is None and len(together) > 1:
        where = listed(f"{one.name} on VLAN {_shown(one.vlan)}" for one in bonded.ports)
        raise ConfigError(f"{place.table}: its ports are on different VLANs; set vlan of the bond: {where}")
    return vlan


def _check_later(seen: SeenNetwork, place: TablePlace, vlan: Vlan | None, bond: BondSite, node: str) -> None:
    """Raise ConfigError if a later change would fail, before the creation of what farrier cannot remove."""
    seen.places.link(place, vlan, node=node)
    for want in bond.vlans:
        above = _tagged(place, want)
        seen.places.link(above, seen.places.tagged(above, vlan), node=node)


def _of_interface(
    seen: SeenNetwork,
    interface: Interface,
    place: TablePlace,
    *,
    mtu: int | None,
    vlans: tuple[VlanSite, ...],
    node: str,
) -> Iterator[MissingChange]:
    """Yield the missing changes of an existing interface and of its VLANs."""
    vlan = seen.places.untagged(place, interface.vlan)
    link = seen.places.link(place, vlan, node=node)
    above = [(tagged, seen.places.tagged(_tagged(place, tagged), vlan)) for tagged in vlans]
    yield from _settings(interface, vlan, mtu)
    # An interface that moves to another VLAN loses its links.
    yield from _linked(interface, link, anew=_id(interface.vlan) != _id(vlan))
    for tagged, on in above:
        yield from _of_vlan(seen, interface, on, tagged, _tagged(place, tagged), node=node)


def _of_vlan(
    seen: SeenNetwork, below: Interface, vlan: Vlan, want: VlanSite, place: TablePlace, *, node: str
) -> Iterator[MissingChange]:
    link = seen.places.link(place, vlan, node=node)
    there = next(
        (
            one
            for one in seen.interfaces
            if one.type == "vlan" and one.parents == (below.name,) and _id(one.vlan) == vlan.id
        ),
        None,
    )
    if there is None:
        yield MissingChange(
            CreateVlan(parent=below.id, vlan=vlan.id, mtu=want.mtu), f"put VLAN {want.vid} on {below.name}"
        )
        return
    yield from _settings(there, vlan, want.mtu)
    yield from _linked(there, link, anew=False)


def _settings(interface: Interface, vlan: Vlan | None, mtu: int | None) -> Iterator[MissingChange]:
    move = vlan is not None and vlan.id != _id(interface.vlan)
    # A moved interface does not keep the MTU of its former VLAN.
    resize = mtu is not None and mtu != _own_mtu(interface) and (move or mtu != interface.effective_mtu)
    if not move and not resize:
        return
    change = UpdateInterface(
        interface=interface.id, vlan=vlan.id if vlan is not None and move else None, mtu=mtu if resize else None
    )
    words = [f"VLAN {_shown(vlan)}"] if move else []
    words += [f"MTU {mtu}"] if resize else []
    yield MissingChange(change, f"set {interface.name} to {' and '.join(words)}")


def _linked(interface: Interface, link: WantedLink | None, *, anew: bool) -> Iterator[MissingChange]:
    if link is None or (link.is_met_by(interface.links) and not anew):
        return
    change = LinkSubnet(interface=interface.id, mode=link.mode, subnet=link.subnet, ip_address=link.address)
    yield MissingChange(change, f"link {interface.name}: {link.mode}")


def _check_same(there: Interface, bonded: Bonded) -> None:
    """Check that an existing bond with this name matches its table, because farrier removes no bond."""
    bond = bonded.bond
    if there.type != "bond":
        raise ConfigError(f"{bonded.table}: {bond.name} is a {there.type} interface in MAAS; {_REMOVE_IT}")
    wanted, has = {one.name for one in bonded.ports}, set(there.parents)
    if wanted != has:
        detail = f"has the ports {listed(sorted(has))}, but should have {listed(sorted(wanted))}"
        raise ConfigError(f"{bonded.table}: {bond.name} {detail}; correct the table, or {_REMOVE_IT}")
    shown = there.params if isinstance(there.params, dict) else {}
    for name, value in (
        ("bond_mode", bond.mode),
        ("bond_lacp_rate", bond.lacp_rate if bond.mode in _WITH_LACP else None),
        ("bond_xmit_hash_policy", bond.xmit_hash_policy if bond.mode in _WITH_HASH else None),
    ):
        if value is not None and shown.get(name, value) != value:
            detail = f"{bond.name} has {name} {str(shown[name])[:40]!r}, but should have {value!r}"
            raise ConfigError(f"{bonded.table}: {detail}; correct the table, or {_REMOVE_IT}")


def _not_bonded(seen: SeenNetwork, port: Interface, table: str) -> None:
    bond = next((one for one in seen.interfaces if one.type == "bond" and port.name in one.parents), None)
    if bond is not None:
        raise ConfigError(f"{table}: {port.name} is in bond {bond.name} in MAAS; {_REMOVE_IT}")


def _tagged(below: TablePlace, vlan: VlanSite) -> TablePlace:
    return TablePlace(table=f"{below.table}, VLAN {vlan.vid}", vid=vlan.vid, link=vlan.link)


def _own_mtu(interface: Interface) -> object:
    return interface.params.get("mtu") if isinstance(interface.params, dict) else None


def _id(vlan: Vlan | None) -> int | None:
    return None if vlan is None else vlan.id


def _shown(vlan: Vlan | None) -> str:
    return "none" if vlan is None else f"{vlan.vid} of {vlan.fabric or vlan.fabric_id}"


def _resolved(
    network: NetworkSite, interfaces: Sequence[Interface], boot: int | None
) -> tuple[tuple[NetworkPort, ...], tuple[Bonded, ...]]:
    """Resolve the tables for this machine with boot interface `boot`. Raises ConfigError if they do not fit."""
    physical = [one for one in interfaces if one.type in {None, "physical"}]
    bonds = tuple(_bonded(number, bond, physical, boot) for number, bond in enumerate(network.bonds, start=1))
    ports = tuple(_ports(network.ports, physical, boot))
    _no_port_twice(bonds, ports)
    _bonds_have_the_say(bonds, ports)
    for port in ports:
        _check_port(port, boot)
        _check_mtus(port.table, port.want.mtu, port.want.vlans)
    for bonded in bonds:
        _check_mtus(bonded.table, bonded.bond.mtu, bonded.bond.vlans)
    return ports, bonds


def _matching(table: str, pattern: str, physical: Sequence[Interface], boot: int | None) -> list[Interface]:
    found = [one for one in physical if _means(pattern, one, is_boot=one.id == boot)]
    if found:
        return found
    seen = listed(f"{one.name} ({_product(one)})" for one in physical)
    raise ConfigError(f"{table}: no port matches {pattern!r}; ports: {seen}")


def _means(pattern: str, port: Interface, *, is_boot: bool) -> bool:
    if is_boot:
        return pattern == port.name
    glob = pattern.casefold()
    return fnmatchcase(port.name.casefold(), glob) or fnmatchcase(_product(port).casefold(), glob)


def _product(port: Interface) -> str:
    return f"{port.vendor or ''} {port.product or ''}".strip()


def _bonded(number: int, bond: BondSite, physical: Sequence[Interface], boot: int | None) -> Bonded:
    table = f"network.bonds {number} ({bond.name})"
    ports = {one.id: one for glob in bond.ports for one in _matching(table, glob, physical, boot)}
    names = listed(one.name for one in ports.values())
    if len(ports) < 2:
        raise ConfigError(f"{table}: a bond needs at least two ports, but {names} match only one port")
    if boot is not None and boot in ports:
        raise ConfigError(
            f"{table}: the machine boots from {ports[boot].name}, so MAAS does not allow this interface in a bond"
        )
    return Bonded(table=table, bond=bond, ports=tuple(sorted(ports.values(), key=lambda one: one.id)))


def _ports(tables: Sequence[PortSite], physical: Sequence[Interface], boot: int | None) -> Iterator[NetworkPort]:
    for number, want in enumerate(tables, start=1):
        table = f"network.ports {number}"
        found = _matching(table, want.match, physical, boot)
        links = (want.link, *(vlan.link for vlan in want.vlans))
        if len(found) > 1 and any(link is not None and link.mode is LinkMode.STATIC for link in links):
            names = listed(one.name for one in found)
            raise ConfigError(
                f"{table} sets one static address but matches several ports: {names}; write a table for each port"
            )
        yield from (NetworkPort(table=table, want=want, interface=one) for one in found)


def _no_port_twice(bonds: Sequence[Bonded], ports: Sequence[NetworkPort]) -> None:
    named: dict[str, str] = {}
    for bonded in bonds:
        if bonded.bond.name in named:
            raise ConfigError(f"{bonded.table}: {named[bonded.bond.name]} has the same name")
        named[bonded.bond.name] = bonded.table
    members = [(one, bonded.table) for bonded in bonds for one in bonded.ports]
    for claims in (members, [(port.interface, port.table) for port in ports]):
        taken: dict[int, str] = {}
        for one, table in claims:
            if one.id in taken:
                raise ConfigError(f"{taken[one.id]} and {table} both match {one.name}")
            taken[one.id] = table


def _bonds_have_the_say(bonds: Sequence[Bonded], ports: Sequence[NetworkPort]) -> None:
    """Check that the table of a port in a bond sets only an MTU, and that this MTU is large enough for the bond."""
    within = {one.id: bonded for bonded in bonds for one in bonded.ports}
    for port in ports:
        bonded = within.get(port.interface.id)
        if bonded is None:
            continue
        want, name = port.want, port.interface.name
        if want.vlan is not None or want.link is not None or want.vlans:
            raise ConfigError(f"{port.table}: {name} is in {bonded.table}; configure vlan, link and vlans there")
        wants = [bonded.bond.mtu or 0, *(vlan.mtu or 0 for vlan in bonded.bond.vlans)]
        if want.mtu is not None and want.mtu < max(wants):
            raise ConfigError(f"{port.table}: mtu {want.mtu} of {name} is less than {max(wants)} of {bonded.table}")


def _check_port(port: NetworkPort, boot: int | None) -> None:
    link = port.want.link
    if port.interface.id == boot and link is not None and link.mode is not LinkMode.AUTO:
        raise ConfigError(f"{port.table}: the machine boots from {port.interface.name}; its link must be auto")


def _check_mtus(table: str, below: int | None, vlans: Sequence[VlanSite]) -> None:
    """Check VLANs and their MTUs, because MAAS would raise the MTU of an interface to the largest MTU of its VLANs."""
    vids = [vlan.vid for vlan in vlans]
    if len(set(vids)) != len(vids):
        raise ConfigError(f"{table}: VLANs are listed twice: {listed(str(vid) for vid in sorted(vids))}")
    for vlan in vlans:
        if below is not None and vlan.mtu is not None and vlan.mtu > below:
            raise ConfigError(f"{table}: VLAN {vlan.vid} has mtu {vlan.mtu}, but its interface has only mtu {below}")
