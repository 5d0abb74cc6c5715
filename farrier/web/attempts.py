"""Limits failed logins: each client address may fail a few times at once, then once every few seconds.

Requests with an accepted token are not limited. The limit keeps the log short, and makes a client with a wrong token
send fewer requests. It does not protect a short token from guesses.

The use of memory is limited. An IPv6 network counts as one address, because a single client may use all addresses of a
network.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from farrier.protocols import Clock

# A person may mistype a few times. A program with a wrong token adds at most 14,400 lines a day to the log.
AT_ONCE = 10
SECONDS_EACH = 6.0
# This is about 1 MB. If there are more addresses, the oldest are removed.
MOST_ADDRESSES = 4096
_NETWORK_OF_A_CLIENT = 64


class Attempts:
    """The failed logins of each address. After some time, a failure does not count any more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # For each address, the time from which none of its failures counts. The address that failed last is at the end.
        self._forgiven: OrderedDict[str, float] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until the address may try again; 0 if it may try now."""
        left = self._forgiven.get(_client(address), 0.0) - self._clock.monotonic()
        return max(0.0, left - (AT_ONCE - 1) * SECONDS_EACH)

    def failed(self, address: str) -> None:
        """Count a failed login from the address."""
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
