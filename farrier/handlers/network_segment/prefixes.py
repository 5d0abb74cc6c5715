"""Checks prefixes that an intent adds to a segment. Pure arithmetic, without enumerating addresses.

The database enforces the same rules; this module turns a violation into an answer instead of a failed run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

# Must accept the same texts as the SQL function `farrier.prefix_fault`, which the load calls before it checks overlaps.
_NUMBER = r"[0-9]{1,3}"
_PREFIX = re.compile(rf"({_NUMBER}(\.{_NUMBER}){{3}}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/{_NUMBER}")

Network: TypeAlias = IPv4Network | IPv6Network
IpAddress: TypeAlias = IPv4Address | IPv6Address

# The minimum MTU of IPv6 links (RFC 8200).
LEAST_MTU_OF_IPV6 = 1280


def parse_prefix(text: str) -> Network:
    """Parse a prefix. Raises ValueError with the fault, and for host bits with the network."""
    try:
        if not _PREFIX.fullmatch(text):
            raise ValueError
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"prefix {text} is not a network address such as 10.0.0.0/24 or 2001:db8::/64") from None
    if network.network_address != ip_address(text.partition("/")[0]):
        raise ValueError(f"prefix {text} has host bits; the network is {network}")
    return network


def parse_address(text: str) -> IpAddress:
    """Parse an address. Raises ValueError."""
    try:
        if "%" in text:  # an address with an interface is valid on one machine only
            raise ValueError
        return ip_address(text)
    except ValueError:
        raise ValueError(f"gateway {text} is not an IP address") from None


def parse_gateways(texts: Iterable[str], networks: Sequence[Network]) -> tuple[IpAddress, ...]:
    """Parse the gateways. Each gateway must be in one of the added networks, and each network can have at most one
    gateway. Raises ValueError."""
    found: dict[Network, IpAddress] = {}
    for text in texts:
        address = parse_address(text)
        home = next((network for network in networks if address in network), None)
        if home is None:
            raise ValueError(f"gateway {text} is not in a prefix of this intent's add_prefixes")
        if not _first(home) <= int(address) <= _last(home):
            raise ValueError(f"gateway {text} is the network or broadcast address of {home}")
        if home in found:
            raise ValueError(f"prefix {home} already has gateway {found[home]}; remove {text}")
        found[home] = address
    return tuple(found.values())


def overlap(networks: Sequence[Network], others: Sequence[Network]) -> str | None:
    """Return the first overlap among `networks`, or between `networks` and `others`; None without an overlap."""
    for position, network in enumerate(networks):
        for other in (*networks[:position], *others):
            if network.overlaps(other):
                return f"{network} overlaps {other}"
    return None


def room(network: Network, gateways: Iterable[IpAddress], reserved_first: int, reserved_last: int) -> int:
    """Return how many addresses of a prefix can be allocated; at most zero if it is full of reserved addresses."""
    first, last = _first(network) + reserved_first, _last(network) - reserved_last
    return (
        last
        - first
        + 1
        - sum(gateway.version == network.version and first <= int(gateway) <= last for gateway in gateways)
    )


def _first(network: Network) -> int:
    """Return the first host address. This is not the network address, except in a prefix with one or two addresses."""
    return int(network.network_address) + (1 if network.num_addresses > 2 else 0)


def _last(network: Network) -> int:
    """Return the last host address. IPv4 reserves the broadcast address; IPv6 has no broadcast address."""
    broadcast = isinstance(network, IPv4Network) and network.num_addresses > 2
    return int(network.broadcast_address) - (1 if broadcast else 0)
