"""Checks a site's file for faults that the types of its keys do not exclude.

`site_files` calls this module for each parsed site. The module reports all faults at once. The module sends no request
to the region, because the region may not exist yet.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from farrier.config import templates
from farrier.config.credentials import SCHEMES, is_reference
from farrier.config.sites import (
    LEAVES_DATA,
    BondSite,
    DeploySite,
    Layout,
    LinkSite,
    MaasSite,
    NetworkSite,
    PortSite,
    Site,
    UfmSite,
)
from farrier.config.tables import Fault, place
from farrier.model import duration
from farrier.model.maas.changes import LinkMode
from farrier.model.node.evidence import Require
from farrier.model.node.layers import CleaningBy

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

# The shortest and longest useful duration of each key. A shorter duration would load the region too much; a longer
# duration would look like an outage. For tokens, the longest duration is the limit of the database.
_LIMITS = {
    ("maas", "node_timeout"): (_MINUTE, _DAY),
    # A run of a partition must end within a minute, and it reads UFM twice.
    ("ufm", "read_timeout"): (_SECOND, 20 * _SECOND),
    ("ufm", "change_timeout"): (_SECOND, 45 * _SECOND),
    ("observe", "events_every"): (_SECOND, _MINUTE),
    ("observe", "motion_every"): (5 * _SECOND, 10 * _MINUTE),
    ("observe", "sweep_every"): (_MINUTE, _DAY),
    ("deploy", "bootstrap_ttl"): (_MINUTE, 30 * _DAY),
}
# Time within which an agent has to enrol after its machine was deployed. After this time, the deployment counts as
# failed.
_FIRST_BOOT = timedelta(minutes=30)
_LACP_RATES = ("slow", "fast")
_HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4")
_WITH_A_ROOT = (Layout.FLAT, Layout.LVM, Layout.BCACHE)


def faults(site: Site) -> Iterator[Fault]:
    """Return all faults of one site."""
    if site.maas is not None:
        yield from _maas(site.maas)
    if site.ufm is not None:
        yield from _ufm(site.ufm)
    yield from _durations(site)
    yield from _storage(site)
    yield from _network(site.network)
    yield from _used(site)
    yield from _cleaning(site)
    given = site.cloud_init
    wrong = tuple(templates.faults(given.template, given.variables, segments=site.network.segments))
    for text in wrong:
        yield Fault(place("cloud_init", site.cloud_init.template_file), text)
    if not wrong and templates.names_agents(given.template) and not site.agents.url:
        yield Fault(
            place("cloud_init", given.template_file), "it uses agents, but agents.url in farrier's settings is empty"
        )
    if site.maas is not None and not wrong and templates.names_token(site.cloud_init.template):
        yield from _token(site.deploy, site.maas)


def _maas(maas: MaasSite) -> Iterator[Fault]:
    if not _is_plain(maas.url):
        yield Fault(place("maas", "url"), "expected http[s]://host[:port]/MAAS without further parts")
    if not is_reference(maas.key):
        yield Fault(
            place("maas", "key"), f"expected a reference to the API key ({', '.join(SCHEMES)}), not the key itself"
        )
    yield from _ca_file("maas", maas.ca_file)


def _ufm(ufm: UfmSite) -> Iterator[Fault]:
    if not _is_plain(ufm.url):
        yield Fault(place("ufm", "url"), "expected http[s]://host[:port] without further parts")
    if bool(ufm.credential) == bool(ufm.token):
        yield Fault(place("ufm"), "expected exactly one of credential (a user and password) and token")
    for key in ("credential", "token"):
        reference = getattr(ufm, key)
        if reference and not is_reference(reference):
            yield Fault(
                place("ufm", key), f"expected a reference to the secret ({', '.join(SCHEMES)}), not the secret itself"
            )
    yield from _ca_file("ufm", ufm.ca_file)


def _is_plain(url: str) -> bool:
    """Return whether a URL has a host, perhaps with a port, and no user, query or fragment."""
    parts = urlsplit(url)
    try:
        port_is_one = parts.port != 0
    except ValueError:
        port_is_one = False
    return bool(parts.hostname) and port_is_one and "@" not in parts.netloc and not parts.query and not parts.fragment


def _ca_file(table: str, path: str) -> Iterator[Fault]:
    if path and not path.startswith("/"):
        yield Fault(place(table, "ca_file"), f"expected an absolute path, got {path!r}")


def _cleaning(site: Site) -> Iterator[Fault]:
    """Check that somebody can give the evidence that the site requires. The agent can prove the memory of GPUs, but not
    that the disks of its own system are erased, and it cannot clean a machine that has lost it."""
    require, at = site.cleaning.require, place("cleaning", "require")
    by = site.cleaning.by or (CleaningBy.REGION if site.maas is not None else None)
    if by is CleaningBy.REGION and site.maas is None:
        yield Fault(place("cleaning", "by"), "region needs the table [maas]")
    if require is Require.NONE:
        return
    if by is CleaningBy.REGION:
        if site.release.erase in LEAVES_DATA:
            yield Fault(
                place("release", "erase"),
                f"{site.release.erase} leaves data on the disks, so no cleaning has the evidence that "
                f"cleaning.require = {require} asks for; expected secure or full",
            )
    elif require is Require.OUTSIDE:
        yield Fault(at, 'only the region gives evidence from outside; expected [maas] and cleaning.by = "region"')
    elif by is not CleaningBy.WORKER:
        yield Fault(at, 'no source of this site can give the evidence; expected cleaning.by = "region" or "worker"')


def _durations(site: Site) -> Iterator[Fault]:
    for (table, key), (least, most) in _LIMITS.items():
        held = getattr(site, table)
        found = getattr(held, key) if held is not None else None
        if found is not None and not least <= found <= most:
            text = f"expected {duration.human(least)} to {duration.human(most)}, got {_human(found)}"
            yield Fault(place(table, key), text)
    observe = site.observe
    if not observe.events_every <= observe.motion_every <= observe.sweep_every:
        yield Fault(place("observe"), "expected events_every to be the shortest interval and sweep_every the longest")


def _token(deploy: DeploySite, maas: MaasSite) -> Iterator[Fault]:
    """Check the lifetime of the token. A deployment may begin when half of the lifetime is over, and the agent enrolls
    at the end of the deployment."""
    least = 2 * (2 * maas.node_timeout + _FIRST_BOOT)
    if deploy.bootstrap_ttl < least:
        text = (
            f"expected at least {duration.human(least)}: half of this lifetime must cover two node_timeouts "
            f"({duration.human(maas.node_timeout)} each) and the first boot ({duration.human(_FIRST_BOOT)}); got "
            f"{_human(deploy.bootstrap_ttl)}"
        )
        yield Fault(place("deploy", "bootstrap_ttl"), text)


def _human(found: timedelta) -> str:
    return f"{found.total_seconds():g}s" if found % _SECOND else duration.human(found)


def _storage(site: Site) -> Iterator[Fault]:
    storage = site.storage
    if re.search(storage.boot_disk_model, ""):
        text = f"expected a pattern that matches only boot disks; {storage.boot_disk_model!r} matches any disk"
        yield Fault(place("storage", "boot_disk_model"), text)
    if storage.root_size_gb is not None and storage.layout not in _WITH_A_ROOT:
        text = f"layout {storage.layout} creates no root partition; use {', '.join(_WITH_A_ROOT)}, or omit the size"
        yield Fault(place("storage", "root_size_gb"), text)


def _network(network: NetworkSite) -> Iterator[Fault]:
    yield from _subnet(network.pxe_subnet, place("network", "pxe_subnet"))
    yield from _once((port.match for port in network.ports), place("network.ports"), "match")
    yield from _once((bond.name for bond in network.bonds), place("network.bonds"), "name")
    bonded = [glob for bond in network.bonds for glob in bond.ports]
    yield from _once(bonded, place("network.bonds"), "port")
    for number, port in enumerate(network.ports, start=1):
        path = f"network.ports {number}"
        if port.link is not None and port.match in bonded:
            yield Fault(place(f"{path}.link"), f"{port.match!r} is in a bond; configure the link on the bond")
        yield from _interface(port, path)
    for number, bond in enumerate(network.bonds, start=1):
        path = f"network.bonds {number}"
        yield from _one_of(bond.lacp_rate, _LACP_RATES, place(path, "lacp_rate"))
        yield from _one_of(bond.xmit_hash_policy, _HASH_POLICIES, place(path, "xmit_hash_policy"))
        yield from _interface(bond, path)
    yield from _once((at for link in _links(network) for at in _spelled(link)), place("network"), "address")


def _used(site: Site) -> Iterator[Fault]:
    yield from _once(site.network.segments, place("network", "segments"), "segment")
    yield from _once(site.infiniband.partitions, place("infiniband", "partitions"), "partition")
    if site.infiniband.partitions and site.ufm is None:
        yield Fault(
            place("infiniband", "partitions"),
            "expected a table [ufm] with the URL of the UFM that keeps the partitions",
        )


def _interface(interface: PortSite | BondSite, path: str) -> Iterator[Fault]:
    if interface.link is not None:
        yield from _link(interface.link, f"{path}.link")
    yield from _once((str(vlan.vid) for vlan in interface.vlans), place(f"{path}.vlans"), "vid")
    for number, vlan in enumerate(interface.vlans, start=1):
        below = f"{path}.vlans {number}"
        if vlan.mtu is not None and interface.mtu is not None and vlan.mtu > interface.mtu:
            text = f"expected at most {interface.mtu}, the MTU of its parent interface; got {vlan.mtu}"
            yield Fault(place(below, "mtu"), text)
        if vlan.link is not None:
            yield from _link(vlan.link, f"{below}.link")


def _links(network: NetworkSite) -> Iterator[LinkSite]:
    interfaces: tuple[PortSite | BondSite, ...] = (*network.ports, *network.bonds)
    for interface in interfaces:
        links = (interface.link, *(vlan.link for vlan in interface.vlans))
        yield from (link for link in links if link is not None)


def _link(link: LinkSite, path: str) -> Iterator[Fault]:
    wrong = list(_subnet(link.subnet, place(path, "subnet")))
    yield from wrong
    if link.mode is not LinkMode.STATIC:
        if link.addresses:
            yield Fault(
                place(path, "addresses"),
                f"is allowed only with mode static, but the mode is {link.mode}; remove it, or use mode static",
            )
        return
    if link.subnet is None:
        yield Fault(place(path, "subnet"), "is missing; mode static needs the CIDR of the addresses")
    if not link.addresses:
        yield Fault(
            place(path, "addresses"), "is missing; mode static needs one address per node, under the node's name"
        )
    network = ipaddress.ip_network(link.subnet) if link.subnet is not None and not wrong else None
    for node, text in link.addresses.items():
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            yield Fault(place(path, f"addresses.{node}"), f"expected an IP address, got {text!r}")
        else:
            if network is not None and address not in network:
                yield Fault(place(path, f"addresses.{node}"), f"expected an address in {network}, got {text}")


def _spelled(link: LinkSite) -> Iterator[str]:
    """Return the valid addresses in canonical form, so that they can be compared."""
    for text in link.addresses.values():
        try:
            yield str(ipaddress.ip_address(text))
        except ValueError:
            continue


def _subnet(cidr: str | None, where: str) -> Iterator[Fault]:
    if cidr is None:
        return
    try:
        ipaddress.ip_network(cidr)
    except ValueError as error:
        yield Fault(where, f"expected a CIDR such as 10.1.0.0/24: {error}")
    else:
        if "/" not in cidr:
            yield Fault(where, f"expected a CIDR such as 10.1.0.0/24, got the address {cidr}")


def _one_of(value: str | None, known: tuple[str, ...], where: str) -> Iterator[Fault]:
    if value is not None and value not in known:
        yield Fault(where, f"expected one of {', '.join(known)}; got {value!r}")


def _once(values: Iterable[str], where: str, what: str) -> Iterator[Fault]:
    for value, times in Counter(values).items():
        if times > 1:
            yield Fault(where, f"{what} {value!r} is listed {times} times; expected once")
