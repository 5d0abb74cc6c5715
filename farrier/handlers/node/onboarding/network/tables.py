"""Finds the ports of a machine that a site's network tables describe, and checks that the tables agree. Pure.

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
from farrier.model.maas.changes import LinkMode
from farrier.model.maas.reading import Interface


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


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The tables after they were resolved for this machine."""

    bonds: tuple[Bonded, ...]
    ports: tuple[NetworkPort, ...]


def read(network: NetworkSite, interfaces: Sequence[Interface], boot: int | None) -> Setup:
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
    return Setup(bonds=bonds, ports=ports)


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
