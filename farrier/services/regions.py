"""`farrier.protocols.Regions`: one client for each site's MAAS region, and turns to use it.

Opened by `wiring`; `use` is called at the start and again when the sites were read anew. A region whose settings stay
keeps its client and whoever is in line for it. A client that is no longer wanted is closed with all others at the end:
somebody may be using it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec

from farrier import protocols
from farrier.config.sites import Sites
from farrier.model.maas import MaasError, MaasFailure
from farrier.services.maas_wire import MaasSettings
from farrier.services.region_turns import Turns
from farrier.services.sharing_client import SharingClient, open_sharing
from farrier.services.times import Times


class RegionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A region, and the reference of its key."""

    maas: MaasSettings
    key: str


def settings_of(sites: Sites) -> Mapping[str, RegionSettings]:
    """The regions of those sites that have one."""
    return {
        name: RegionSettings(
            maas=MaasSettings(
                url=site.maas.url.rstrip("/"),
                ca_file=Path(site.maas.ca_file) if site.maas.ca_file else None,
                agent_name=site.maas.agent_name,
            ),
            key=site.maas.key,
        )
        for name, site in sites.items()
        if site.maas is not None
    }


class _Region(msgspec.Struct, frozen=True):
    settings: RegionSettings
    client: SharingClient
    turns: Turns


class Opened(msgspec.Struct, frozen=True):
    """Regions that can be used."""

    regions: Mapping[str, _Region]


class Regions:
    """`protocols.Regions`, for real."""

    def __init__(
        self,
        stack: AsyncExitStack,
        *,
        credentials: protocols.CredentialStore,
        times: Times,
        observer: protocols.ServiceObserver,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._stack = stack
        self._credentials = credentials
        self._times = times
        self._observer = observer
        self._transport = transport
        self._regions: Mapping[str, _Region] = {}

    async def use(self, wanted: Mapping[str, RegionSettings]) -> None:
        """Have exactly these regions, by site. Raises ConfigError, and then leaves everything as it was."""
        self.take(await self.opened(wanted))

    async def opened(self, wanted: Mapping[str, RegionSettings]) -> Opened:
        """These regions, by site, to be taken once all else is ready for them. Raises ConfigError."""
        regions: dict[str, _Region] = {}
        for site, settings in wanted.items():
            known = self._regions.get(site)
            kept = known if known is not None and known.settings == settings else None
            regions[site] = kept or await self._open(site, settings)
        return Opened(regions)

    def take(self, opened: Opened) -> None:
        """Have exactly these regions from now on, and try each at once."""
        for region in opened.regions.values():
            region.turns.forget_trouble()
        self._regions = opened.regions

    @asynccontextmanager
    async def turn(self, site: str) -> AsyncIterator[protocols.MaasClient]:
        region = self._regions.get(site)
        if region is None:
            raise MaasError(MaasFailure.UNREACHABLE, f"site {site} has no region here", operation="turn")
        async with region.turns.turn():
            yield region.client

    def client(self, site: str) -> protocols.MaasClient | None:
        """The client of a site's region, for its observer, which is in no line."""
        region = self._regions.get(site)
        return None if region is None else region.client

    async def _open(self, site: str, settings: RegionSettings) -> _Region:
        client = await self._stack.enter_async_context(
            open_sharing(
                settings.maas,
                key=partial(self._credentials.token, settings.key),
                times=self._times,
                observer=self._observer,
                transport=self._transport,
            )
        )
        return _Region(settings, client, Turns(site, self._times.clock))


@asynccontextmanager
async def open_regions(
    *,
    credentials: protocols.CredentialStore,
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Regions]:
    """No regions yet; all clients are closed at the end."""
    async with AsyncExitStack() as stack:
        yield Regions(stack, credentials=credentials, times=times, observer=observer, transport=transport)
