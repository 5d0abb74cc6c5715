"""Keeps one client of a service for each site that has the service. A client is kept while its settings do not change.

A replaced client is closed when the daemon stops, because steps may still use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, Self, TypeVar

import httpx
import msgspec

from farrier import protocols
from farrier.services.http.client import Times

_S = TypeVar("_S")
_C = TypeVar("_C")


class Kept(msgspec.Struct, Generic[_S, _C], frozen=True):
    """A client and its settings."""

    settings: _S
    client: _C


class SiteClients(ABC, Generic[_S, _C]):
    """The clients that were last passed to `take`. At first, there are none. `stack` closes them."""

    def __init__(
        self,
        stack: AsyncExitStack,
        *,
        credentials: protocols.CredentialStore,
        times: Times,
        observer: protocols.ServiceObserver,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._stack = stack
        self._credentials = credentials
        self._times = times
        self._observer = observer
        self._transport = transport
        self._sites: Mapping[str, Kept[_S, _C]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        credentials: protocols.CredentialStore,
        times: Times,
        observer: protocols.ServiceObserver,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> AsyncIterator[Self]:
        """Return an instance without clients; `use` opens them. The context closes all clients at its end."""
        async with AsyncExitStack() as stack:
            yield cls(stack, credentials=credentials, times=times, observer=observer, transport=transport)

    async def use(self, wanted: Mapping[str, _S]) -> None:
        """Use one client for each site in `wanted`, with these settings, and no other clients. Opens missing clients.
        May be called again with other settings. If it raises ConfigError, it changes nothing."""
        self.take(await self.opened(wanted))

    async def opened(self, wanted: Mapping[str, _S]) -> Mapping[str, Kept[_S, _C]]:
        """Return open clients of these sites. The caller passes them to `take` once everything else is ready. Raises
        ConfigError."""
        sites: dict[str, Kept[_S, _C]] = {}
        for site, settings in wanted.items():
            known = self._sites.get(site)
            same = known if known is not None and known.settings == settings else None
            sites[site] = same or Kept(settings, await self._open(site, settings))
        return sites

    def take(self, opened: Mapping[str, Kept[_S, _C]]) -> None:
        """Use exactly these clients from now on."""
        self._sites = opened

    @abstractmethod
    async def _open(self, site: str, settings: _S) -> _C:
        """Open a client that `stack` closes. Raises ConfigError."""
