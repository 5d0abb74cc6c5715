"""A `Maas` client that shares readings: concurrent callers wait for one request, and its result is reused for a while.

If a reading fails, the next waiting caller repeats it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import httpx
import msgspec
import structlog
from typing_extensions import override

from farrier import protocols
from farrier.log import mask_urls
from farrier.model.maas import PowerAddress, Subnet, Vlan
from farrier.services.http_client import open_client
from farrier.services.maas import Maas
from farrier.services.maas_service import FAILURES, MAAS, MaasHttp, MaasSettings
from farrier.services.maas_signing import ApiKey, parsed
from farrier.services.times import Times

_log = structlog.stdlib.get_logger(__name__)

# A region needs 1.2 ms per machine to list all BMC addresses, and every node that searches for its machine needs the
# list. If a machine is newer than the list, it is found by its other identities. farrier reads a machine by its ID
# before it uses the machine.
ADDRESSES_KEPT = timedelta(seconds=60)
# The lists of networks are long, and the same for every node. If an operator creates a network to fix a node's failure,
# the second attempt finds the network at the latest.
NETWORKS_KEPT = timedelta(seconds=30)


@asynccontextmanager
async def open_sharing(
    settings: MaasSettings,
    *,
    site: str,
    key: Callable[[], Awaitable[str]],
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[SharingClient]:
    """Open the client, which closes with the context and connects at its first request. `key` returns the API key as
    MAAS prints it, and is called at most once in `KEY_KEPT`. Errors name the site and the URL. Raises `ConfigError` for
    an unusable CA file."""

    async def credential() -> ApiKey:
        return parsed(await key())

    if not settings.url.startswith("https://"):
        _log.warning("maas.not_encrypted", url=settings.url)
    failures = msgspec.structs.replace(FAILURES, where=f"site {site} ({mask_urls(settings.url)})")
    service = msgspec.structs.replace(MAAS, failures=failures)
    async with open_client(
        service, settings, credential=credential, times=times, observer=observer, transport=transport
    ) as http:
        yield SharingClient(http, clock=times.clock, settings=settings)


class SharingClient(Maas):
    """A client that reuses BMC addresses for at most `ADDRESSES_KEPT`, and networks for at most `NETWORKS_KEPT`."""

    def __init__(self, http: MaasHttp, *, clock: protocols.Clock, settings: MaasSettings) -> None:
        super().__init__(http, clock=clock, settings=settings)
        self._now = clock.monotonic
        self._one_at_a_time = anyio.Lock()
        self._one_list_of_subnets, self._one_list_of_vlans = anyio.Lock(), anyio.Lock()
        self._subnets: tuple[float, tuple[Subnet, ...]] | None = None
        self._vlans: tuple[float, tuple[Vlan, ...]] | None = None
        self._addresses: tuple[float, Mapping[str, PowerAddress]] | None = None

    @override
    async def power_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        if ids:
            return await super().power_addresses(ids)
        async with self._one_at_a_time:
            asked = self._now()
            if self._addresses is None or asked - self._addresses[0] >= ADDRESSES_KEPT.total_seconds():
                self._addresses = asked, await super().power_addresses()
            return self._addresses[1]

    @override
    async def subnets(self) -> tuple[Subnet, ...]:
        async with self._one_list_of_subnets:
            asked = self._now()
            if self._subnets is None or asked - self._subnets[0] >= NETWORKS_KEPT.total_seconds():
                self._subnets = asked, await super().subnets()
            return self._subnets[1]

    @override
    async def vlans(self) -> tuple[Vlan, ...]:
        async with self._one_list_of_vlans:
            asked = self._now()
            if self._vlans is None or asked - self._vlans[0] >= NETWORKS_KEPT.total_seconds():
                self._vlans = asked, await super().vlans()
            return self._vlans[1]
