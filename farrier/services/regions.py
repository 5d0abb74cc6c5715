"""`farrier.protocols.Regions`: one client for each site's MAAS region, and turns to use it.

Opened by `wiring`; `use` is called at the start and again when the sites were read anew. A region whose settings stay
keeps its client and whoever is in line for it. A client that is no longer wanted is closed with all others at the end:
somebody may be using it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import httpx
import msgspec

from farrier import protocols
from farrier.config.sites import Sites
from farrier.model.maas import MaasError, MaasFailure
from farrier.services.maas import Maas, open_maas
from farrier.services.maas_transport import CONCURRENCY, MaasSettings, Times

# One of the region's slots is always left to its observer, which everybody waits for.
TURNS = CONCURRENCY - 1
# Longer than that, and whoever waits may as well come again; short, for nothing can be cut off here.
PATIENCE = timedelta(seconds=10)
# The region is well, the line is long: whoever comes again has lost his place in it, and should not lose much else.
LINE_AGAIN = timedelta(seconds=2)


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
    client: Maas
    turns: anyio.CapacityLimiter


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
        regions: dict[str, _Region] = {}
        for site, settings in wanted.items():
            known = self._regions.get(site)
            regions[site] = known if known is not None and known.settings == settings else await self._open(settings)
        self._regions = regions

    @asynccontextmanager
    async def turn(self, site: str) -> AsyncIterator[protocols.MaasClient]:
        region = self._regions.get(site)
        if region is None:
            raise MaasError(MaasFailure.UNREACHABLE, f"site {site} has no region here", operation="turn")
        me = object()
        try:
            with anyio.fail_after(PATIENCE.total_seconds()):
                await region.turns.acquire_on_behalf_of(me)
        except TimeoutError:
            detail = f"the line of our own requests to site {site} is longer than {PATIENCE.total_seconds():.0f} s"
            raise MaasError(MaasFailure.BUSY, detail, retry_after=LINE_AGAIN, operation="turn") from None
        try:
            yield region.client
        finally:
            region.turns.release_on_behalf_of(me)

    def client(self, site: str) -> protocols.MaasClient | None:
        """The client of a site's region, for its observer, which is in no line."""
        region = self._regions.get(site)
        return None if region is None else region.client

    async def _open(self, settings: RegionSettings) -> _Region:
        client = await self._stack.enter_async_context(
            open_maas(
                settings.maas,
                key=partial(self._credentials.token, settings.key),
                times=self._times,
                observer=self._observer,
                transport=self._transport,
            )
        )
        return _Region(settings, client, anyio.CapacityLimiter(TURNS))


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
