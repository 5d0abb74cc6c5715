"""The way to one host: its name is resolved once, its addresses are checked, and only these are dialled.

Made by the BMC client for each call. A second look at the name could lead elsewhere than the one that was checked, so
connections of a call, and of a session that it opened, take the addresses from here.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio

from farrier.services.bindings import is_number

Lookup: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
Check: TypeAlias = Callable[[Sequence[str]], None]


async def look_up(host: str) -> Sequence[str]:
    """The addresses of a name, as the system has them. Raises `OSError`."""
    found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(str(where[0]) for *_, where in found)


class Route:
    """`check` raises for addresses that may not be dialled."""

    def __init__(self, host: str, check: Check, *, lookup: Lookup = look_up) -> None:
        self.host = host
        self._check = check
        self._lookup = lookup
        self._addresses: tuple[str, ...] | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Those that may be dialled; none before `resolve`."""
        return self._addresses or ()

    async def resolve(self) -> tuple[str, ...]:
        """The addresses, checked; the same ones each time. Raises `OSError` for a name without any, and what the check
        raises."""
        if self._addresses is None:
            found = (self.host,) if is_number(self.host) else tuple(await self._lookup(self.host))
            self._check(found)
            self._addresses = found
        return self._addresses
