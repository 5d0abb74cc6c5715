"""Token buckets: each name may do something a few times at once, and then once in a certain time.

The use of memory is limited: if there are more names, those that were used least recently are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from farrier.protocols import Clock

_NETWORK_OF_A_CLIENT = 64


class Buckets:
    """One bucket for each name. A bucket holds `at_once` tokens, and gets a new one every `seconds_each`."""

    def __init__(self, clock: Clock, *, at_once: int, seconds_each: float, most: int) -> None:
        self._clock = clock
        self._slack = (at_once - 1) * seconds_each
        self._each = seconds_each
        self._most = most
        # For each name, the time at which its bucket is full again. The name that was used last is at the end.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def __contains__(self, name: object) -> bool:
        return name in self._full_at

    def wait(self, name: str) -> float:
        """Return the seconds until the bucket has a token; 0 if it has one now."""
        return max(0.0, self._full_at.get(name, 0.0) - self._clock.monotonic() - self._slack)

    def spend(self, name: str) -> None:
        """Take a token from the bucket, even if it has none."""
        self._full_at[name] = max(self._full_at.get(name, 0.0), self._clock.monotonic()) + self._each
        self._full_at.move_to_end(name)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)


def client_of(address: str) -> str:
    """Return the name of the bucket of an address. A client may use all addresses of an IPv6 network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed.packed, _NETWORK_OF_A_CLIENT), strict=False))
    return address
