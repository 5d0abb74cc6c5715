"""BMC addresses: their syntax, and the networks to which farrier may connect.

The BMC client gets the URL from `parse` and checks the resolved addresses with `AllowedNetworks`. So a name, a changed
DNS response or an unusual spelling of an address cannot make farrier connect outside the configured networks. farrier
sends no packet to a refused address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from yarl import URL

from farrier.model.machine.bmc import BmcError, BmcFailure

HTTPS = 443
BMCS = 16_384
"""For how many BMCs a process remembers what it derived from their addresses; more BMCs cost some microseconds a
call."""


@lru_cache(maxsize=BMCS)
def number(host: str) -> IPv4Address | IPv6Address | None:
    """Return a numeric address, or None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


class AllowedNetworks:
    """The networks to which farrier may connect."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(map(ip_network, networks))

    def allows(self, address: str) -> bool:
        """Return whether a numeric address is in one of the networks. An IPv4-mapped IPv6 address counts as IPv4."""
        found = number(address)
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return found is not None and any(found in network for network in self._networks)

    def check(self, addresses: Sequence[str]) -> None:
        """Raise `BmcError` unless all of these addresses are in the networks."""
        for address in sorted(addresses):
            if not self.allows(address):
                raise _incomplete(
                    f"{address} is outside of bmc.allowed_networks "
                    f"({', '.join(map(str, self._networks)) or 'none'}); correct the address or add its network"
                )


@lru_cache(maxsize=BMCS)
def parse(address: str) -> URL:
    """Return the base URL of a BMC whose address is `https://host[:port]` or `host[:port]`. Raises `BmcError`.

    No error text repeats a user name or password from the address. An IPv6 address may have brackets; if a port
    follows, the brackets are required.
    """
    text = address.strip()
    bare = f"[{text}]" if isinstance(number(text), IPv6Address) else text
    try:
        url = URL(text if "://" in text else f"https://{bare}")
    except ValueError:
        raise _malformed() from None
    if url.user is not None or url.password is not None:
        raise _incomplete("the BMC address contains a user name; remove it, and set a credential reference")
    if url.scheme != "https":
        raise _incomplete(f"the BMC address begins with {url.scheme}://; only https:// is supported")
    more = url.path not in ("", "/") or url.query_string or url.fragment
    if not (url.host or "").rstrip(".") or url.port == 0 or more:
        raise _incomplete(
            f"the BMC address {text!r} must be host[:port] or, with the path of a system, https://host[:port]/path"
        )
    try:
        return _one_spelling(url)
    except ValueError:  # a host with invalid characters
        raise _malformed() from None


def _one_spelling(url: URL) -> URL:
    """Return the URL in one canonical form. farrier counts turns and logins of a BMC by this form."""
    host = (url.host or "").rstrip(".")
    host = str(number(host) or host)
    return URL.build(scheme="https", host=host, port=None if url.port == HTTPS else url.port)


def _malformed() -> BmcError:
    return _incomplete("the BMC address is neither https://host[:port] nor host[:port]")


def _incomplete(detail: str) -> BmcError:
    return BmcError(BmcFailure.INCOMPLETE, detail)
