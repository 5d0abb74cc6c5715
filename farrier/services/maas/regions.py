"""`farrier.protocols.Regions`: one client for each site's MAAS region, with a queue of its requests.

`take` is called at the start and after the sites were read again. A region with unchanged settings keeps its queue.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import AbstractAsyncContextManager

import msgspec
from typing_extensions import override

from farrier import protocols
from farrier.config.sites import Sites
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.http.site_clients import Kept, SiteClients
from farrier.services.maas.client import open_maas
from farrier.services.maas.limiter import RegionLimiter
from farrier.services.maas.service import MaasSettings


def settings_of(sites: Sites) -> Mapping[str, MaasSettings]:
    """Return the region settings of the sites that have a region."""
    return {
        name: msgspec.convert(site.maas, MaasSettings, from_attributes=True)
        for name, site in sites.items()
        if site.maas is not None
    }


class Regions(SiteClients[MaasSettings, RegionLimiter]):
    """The implementation of `protocols.Regions`."""

    @override
    def take(self, opened: Mapping[str, Kept[MaasSettings, RegionLimiter]]) -> None:
        """Use exactly these regions from now on. Each region is tried at once, even if its breaker is open."""
        for kept in opened.values():
            kept.client.forget_trouble()
        super().take(opened)

    def slot(self, site: str, caller: Hashable) -> AbstractAsyncContextManager[protocols.MaasClient]:
        kept = self._sites.get(site)
        if kept is None:
            raise MaasError(
                MaasFailure.UNREACHABLE, f"site {site} has no region in this controller's settings", operation="slot"
            )
        return kept.client.slot(caller)

    def client(self, site: str) -> protocols.MaasClient | None:
        """Return the client of a site's region. The region's observer uses this client, because the observer's requests
        do not wait in the queue."""
        kept = self._sites.get(site)
        return None if kept is None else kept.client.client

    @override
    async def _open(self, site: str, settings: MaasSettings) -> RegionLimiter:
        client = await self._stack.enter_async_context(
            open_maas(
                settings,
                site=site,
                credentials=self._credentials,
                times=self._times,
                observer=self._observer,
                transport=self._transport,
            )
        )
        return RegionLimiter(client, site=site, clock=self._times.clock)
