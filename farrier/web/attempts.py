"""Limits failed logins: each client address may fail a few times at once, then once every few seconds.

A token that is accepted is not limited. So the limit bounds the log and tells a wrong client to slow down; a token
resists guesses by its length.

Bounded in memory. One network of IPv6 counts as one address, because a single client has all of its addresses.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from farrier.protocols import Clock

# A person mistypes a few times; a program with a wrong token adds at most 14,400 lines a day to the log.
AT_ONCE = 10
SECONDS_EACH = 6.0
# About 1 MB. With more addresses, the oldest addresses are removed.
MOST_ADDRESSES = 4096
_NETWORK_OF_A_CLIENT = 64


class Attempts:
    """The failed logins of each address. A failure stops counting after some time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # For each address, the moment at which all of its failures stop counting; the address that failed last is at
        # the end.
        self._forgiven: OrderedDict[str, float] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds until the address may try again; 0 if it may try now."""
        left = self._forgiven.get(_client(address), 0.0) - self._clock.monotonic()
        return max(0.0, left - (AT_ONCE - 1) * SECONDS_EACH)

    def failed(self, address: str) -> None:
        """Count a failed login."""
        client, now = _client(address), self._clock.monotonic()
        self._forgiven[client] = max(self._forgiven.get(client, 0.0), now) + SECONDS_EACH
        self._forgiven.move_to_end(client)
        if len(self._forgiven) > MOST_ADDRESSES:
            self._forgiven.popitem(last=False)


def _client(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed.packed, _NETWORK_OF_A_CLIENT), strict=False))
    return address
