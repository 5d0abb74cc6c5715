"""`farrier.protocols.Regions`: one client for each site's MAAS region, with a queue of its requests.

`take` is called at the start and after the sites were read again. A region with unchanged settings keeps its queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec
from typing_extensions import override

from farrier import protocols
from farrier.config.sites import Sites
from farrier.model.maas import MaasError, MaasFailure
from farrier.services.maas import open_maas
from farrier.services.maas_service import MaasSettings
from farrier.services.region_turns import Turns
from farrier.services.site_clients import Opened, SiteClients
from farrier.services.times import Times


class RegionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a region, and the reference to its key."""

    maas: MaasSettings
    key: str


def settings_of(sites: Sites) -> Mapping[str, RegionSettings]:
    """Return the region settings of the sites that have a region."""
    return {
        name: RegionSettings(
            maas=MaasSettings(
                url=site.maas.url.rstrip("/"),
                ca_file=Path(site.maas.ca_file) if site.maas.ca_file else None,
                agent_name=site.maas.agent_name,
                deploys_at_once=site.maas.deploys_at_once,
            ),
            key=site.maas.key,
        )
        for name, site in sites.items()
        if site.maas is not None
    }


class Regions(SiteClients[RegionSettings, Turns]):
    """The implementation of `protocols.Regions`."""

    @override
    def take(self, opened: Opened[RegionSettings, Turns]) -> None:
        """Use exactly these regions from now on. Each region is tried at once, even if its breaker is open."""
        for kept in opened.sites.values():
            kept.client.forget_trouble()
        super().take(opened)

    def turn(self, site: str) -> AbstractAsyncContextManager[protocols.MaasClient]:
        kept = self._sites.get(site)
        if kept is None:
            raise MaasError(
                MaasFailure.UNREACHABLE, f"site {site} has no region in this controller's settings", operation="turn"
            )
        return kept.client.turn()

    def client(self, site: str) -> protocols.MaasClient | None:
        """Return the client of a site's region for the region's observer, whose requests do not queue."""
        kept = self._sites.get(site)
        return None if kept is None else kept.client.client

    @override
    async def _open(self, site: str, settings: RegionSettings) -> Turns:
        client = await self._stack.enter_async_context(
            open_maas(
                settings.maas,
                site=site,
                key=partial(self._credentials.token, settings.key),
                times=self._times,
                observer=self._observer,
                transport=self._transport,
            )
        )
        return Turns(client, site=site, clock=self._times.clock)


@asynccontextmanager
async def open_regions(
    *,
    credentials: protocols.CredentialStore,
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Regions]:
    """Open the regions; there are none at first. The context closes their clients at its end."""
    async with AsyncExitStack() as stack:
        yield Regions(stack, credentials=credentials, times=times, observer=observer, transport=transport)
