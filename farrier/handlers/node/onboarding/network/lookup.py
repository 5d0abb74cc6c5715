"""Finds the region's VLANs and subnets that a site's tables name. Pure.

A VID is unique only within its fabric. If several fabrics have the VID, the table's `fabric`, the subnet of the table's
link, or the interface's current VLAN determines the fabric. If a VLAN or subnet is ambiguous or missing, `ConfigError`
is raised and names the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import msgspec

from farrier.config.sites import LinkSite
from farrier.errors import ConfigError
from farrier.handlers.node.changes import listed
from farrier.model.maas.changes import LinkMode
from farrier.model.maas.reading import Interface, Link, Subnet, Vlan


class TablePlace(msgspec.Struct, frozen=True, kw_only=True):
    """The VLAN and the link that a table sets for an interface. `table` is the name of the table in the site's file."""

    table: str
    vid: int | None = None
    fabric: str | None = None
    link: LinkSite | None = None


class WantedLink(msgspec.Struct, frozen=True, kw_only=True):
    """The only link that an interface should have. If `subnet` is None, the link may have any subnet or none."""

    mode: LinkMode
    subnet: int | None = None
    address: str | None = None

    def is_met_by(self, links: Sequence[Link]) -> bool:
        if len(links) != 1 or links[0].mode != self.mode.value:
            return False
        link = links[0]
        if self.subnet is not None and (link.subnet is None or link.subnet.id != self.subnet):
            return False
        return self.address is None or (link.ip_address is not None and _same_address(link.ip_address, self.address))


class RegionPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """The VLANs and subnets of a region. `complete` is set if these are all VLANs of the region. A search over all
    fabrics requires the complete list. A search within a known fabric does not, because no fabric has two VLANs with
    one VID."""

    vlans: tuple[Vlan, ...]
    subnets: tuple[Subnet, ...]
    complete: bool = True

    def untagged(self, place: TablePlace, near: Vlan | None) -> Vlan | None:
        """Return the target VLAN of an interface that is on VLAN `near` now; None if it is on none and needs none."""
        subnet = self._named(place)
        there = None if subnet is None else subnet.vlan
        if place.vid is None:
            return there or near
        found = [vlan for vlan in self.vlans if vlan.vid == place.vid]
        if place.fabric is not None:
            found = [vlan for vlan in found if vlan.fabric == place.fabric]
        if there is not None and subnet is not None:
            if there.id not in {vlan.id for vlan in found}:
                raise ConfigError(f"{place.table}: subnet {subnet.cidr} is on {_vlan(there)}, not on VID {place.vid}")
            return there
        beside = [vlan for vlan in found if near is not None and vlan.fabric_id == near.fabric_id]
        if not beside and place.fabric is None and not self.complete:
            raise ConfigError(f"{place.table}: VLAN {place.vid} is not on a fabric of the machine")
        return _only(beside or found, place)

    def tagged(self, place: TablePlace, parent: Vlan | None) -> Vlan:
        """Return the VLAN with this VID on the fabric of `parent`; MAAS requires that fabric."""
        if parent is None:
            raise ConfigError(f"{place.table}: its interface is on no VLAN in MAAS; set vlan")
        vlan = _only([vlan for vlan in self.vlans if vlan.vid == place.vid], place, on=parent)
        subnet = self._named(place)
        if subnet is not None and (subnet.vlan is None or subnet.vlan.id != vlan.id):
            there = "none" if subnet.vlan is None else _vlan(subnet.vlan)
            raise ConfigError(f"{place.table}: subnet {subnet.cidr} is on {there}, not on {_vlan(vlan)}")
        return vlan

    def _named(self, place: TablePlace) -> Subnet | None:
        """Return the subnet that is named in the table's link; None if no subnet is named."""
        cidr = None if place.link is None else place.link.subnet
        if cidr is None:
            return None
        found = [subnet for subnet in self.subnets if same_network(subnet.cidr, cidr)]
        if len(found) == 1:
            return found[0]
        seen = listed(sorted(subnet.cidr or str(subnet.id) for subnet in self.subnets))
        raise ConfigError(
            f"{place.table}: the region has {'no' if not found else 'more than one'} subnet {cidr}; subnets: {seen}"
        )

    def link(self, place: TablePlace, vlan: Vlan | None, *, node: str) -> WantedLink | None:
        """Return the link of an interface on `vlan`; None if the interface's table sets no link."""
        link = place.link
        if link is None:
            return None
        subnet, address = self._named(place), None
        if link.mode is LinkMode.STATIC:
            address = _address(place, node)
        if link.mode in (LinkMode.STATIC, LinkMode.AUTO):
            subnet = self._of(place, subnet, vlan, holding=address)
        return WantedLink(mode=link.mode, subnet=None if subnet is None else subnet.id, address=address)

    def _of(self, place: TablePlace, named: Subnet | None, vlan: Vlan | None, *, holding: str | None) -> Subnet:
        """Return the subnet of the link. If the table names no subnet, return the only subnet of the VLAN."""
        found = self.on(vlan) if named is None else [named]
        fit = [one for one in found if holding is None or _holds(one, holding)]
        if len(fit) == 1:
            return fit[0]
        if vlan is None and not found:
            raise ConfigError(
                f"{place.table}: the interface is on no VLAN, so its subnet is unknown; set the link's subnet"
            )
        where = "no VLAN" if vlan is None else _vlan(vlan)
        which = f" that contains {holding}" if holding is not None else ""
        seen = listed(sorted(one.cidr or str(one.id) for one in found))
        raise ConfigError(
            f"{place.table}: {where} does not have exactly one subnet{which}; set the link's subnet; subnets: {seen}"
        )

    def on(self, vlan: Vlan | None) -> list[Subnet]:
        """Return the subnets of this VLAN."""
        if vlan is None:
            return []
        return [subnet for subnet in self.subnets if subnet.vlan is not None and subnet.vlan.id == vlan.id]


def nearby(interfaces: Sequence[Interface], subnets: tuple[Subnet, ...]) -> RegionPlaces:
    """Return the VLANs of these subnets and interfaces. The region may have more VLANs."""
    known = (*(one.vlan for one in interfaces), *(subnet.vlan for subnet in subnets))
    vlans = {vlan.id: vlan for vlan in known if vlan is not None}
    return RegionPlaces(vlans=tuple(vlans.values()), subnets=subnets, complete=False)


def same_network(one: str | None, other: str | None) -> bool:
    """Return whether two CIDRs are the same. A text that is not a CIDR equals only an identical text."""
    try:
        return ip_network(one or "", strict=False) == ip_network(other or "", strict=False)
    except ValueError:
        return one == other


def _only(found: list[Vlan], place: TablePlace, *, on: Vlan | None = None) -> Vlan:
    fit = [vlan for vlan in found if on is None or vlan.fabric_id == on.fabric_id]
    if len({vlan.id for vlan in fit}) == 1:
        return fit[0]
    fabrics = listed(sorted({vlan.fabric or str(vlan.fabric_id) for vlan in found}))
    asked = "" if on is None else f" of {on.fabric or on.fabric_id}"
    asked = f" of {place.fabric}" if place.fabric is not None else asked
    if not fit:
        raise ConfigError(f"{place.table}: the region has no VLAN {place.vid}{asked}; fabrics that have it: {fabrics}")
    raise ConfigError(f"{place.table}: VLAN {place.vid} is on several fabrics; set fabric to one of them: {fabrics}")


def _vlan(vlan: Vlan) -> str:
    return f"VLAN {vlan.vid} of {vlan.fabric or vlan.fabric_id}"


def _address(place: TablePlace, node: str) -> str:
    assert place.link is not None, "only for a static link"
    address = place.link.addresses.get(node)
    if address is None:
        raise ConfigError(f"{place.table}: link.addresses has no address for {node}")
    try:
        return str(ip_address(address))
    except ValueError:
        raise ConfigError(f"{place.table}: the address for {node} is not valid: {address[:60]!r}") from None


def _holds(subnet: Subnet, address: str) -> bool:
    try:
        return ip_address(address) in ip_network(subnet.cidr or "", strict=False)
    except ValueError:
        return False


def _same_address(one: str, other: str) -> bool:
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False
