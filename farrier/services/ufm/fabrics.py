"""`farrier.protocols.Fabrics`: one client for each site's UFM.

`wiring` opens this object, and calls `take` at the start and after it has read the sites again.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from farrier import protocols
from farrier.config.sites import Sites, UfmSite
from farrier.services.http.site_clients import SiteClients
from farrier.services.ufm.client import Ufm, open_ufm


def settings_of(sites: Sites) -> Mapping[str, UfmSite]:
    """Return the UFM settings of the sites that have a UFM."""
    return {name: site.ufm for name, site in sites.items() if site.ufm is not None}


class Fabrics(SiteClients[UfmSite, Ufm]):
    """The implementation of `protocols.Fabrics`."""

    def client(self, site: str) -> protocols.UfmClient | None:
        kept = self._sites.get(site)
        return None if kept is None else kept.client

    @override
    async def _open(self, site: str, settings: UfmSite) -> Ufm:
        return await self._stack.enter_async_context(
            open_ufm(
                settings,
                credentials=self._credentials,
                times=self._times,
                observer=self._observer,
                transport=self._transport,
            )
        )
