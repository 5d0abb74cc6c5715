"""`farrier.protocols.Fabrics`: one client for each site's UFM.

Opened by `wiring`; `take` is called at the start and again when the sites were read anew. A UFM whose settings stay
keeps its client. A client that is no longer wanted is closed with all others at the end: somebody may be using it.
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
from farrier.services.times import Times
from farrier.services.ufm import Ufm, open_ufm
from farrier.services.ufm_transport import UfmSettings, pass_of


class FabricSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A UFM, and the reference of what it is shown."""

    ufm: UfmSettings
    reference: str


def settings_of(sites: Sites) -> Mapping[str, FabricSettings]:
    """The UFMs of those sites that have one."""
    return {
        name: FabricSettings(
            ufm=UfmSettings(
                url=site.ufm.url.rstrip("/"),
                with_token=bool(site.ufm.token),
                ca_file=Path(site.ufm.ca_file) if site.ufm.ca_file else None,
                named=site.ufm.partition_names,
                read_timeout=site.ufm.read_timeout,
                change_timeout=site.ufm.change_timeout,
            ),
            reference=site.ufm.token or site.ufm.credential,
        )
        for name, site in sites.items()
        if site.ufm is not None
    }


class _Fabric(msgspec.Struct, frozen=True):
    settings: FabricSettings
    client: Ufm


class Opened(msgspec.Struct, frozen=True):
    """UFMs that can be used."""

    fabrics: Mapping[str, _Fabric]


class Fabrics:
    """`protocols.Fabrics`, for real."""

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
        self._fabrics: Mapping[str, _Fabric] = {}

    async def use(self, wanted: Mapping[str, FabricSettings]) -> None:
        """Have exactly these UFMs, by site. Raises ConfigError, and then leaves everything as it was."""
        self.take(await self.opened(wanted))

    async def opened(self, wanted: Mapping[str, FabricSettings]) -> Opened:
        """These UFMs, by site, to be taken once all else is ready for them. Raises ConfigError."""
        fabrics: dict[str, _Fabric] = {}
        for site, settings in wanted.items():
            known = self._fabrics.get(site)
            kept = known if known is not None and known.settings == settings else None
            fabrics[site] = kept or await self._open(settings)
        return Opened(fabrics)

    def take(self, opened: Opened) -> None:
        """Have exactly these UFMs from now on."""
        self._fabrics = opened.fabrics

    def client(self, site: str) -> protocols.UfmClient | None:
        fabric = self._fabrics.get(site)
        return None if fabric is None else fabric.client

    async def _open(self, settings: FabricSettings) -> _Fabric:
        shown = partial(pass_of, self._credentials, settings.reference, with_token=settings.ufm.with_token)
        client = await self._stack.enter_async_context(
            open_ufm(settings.ufm, shown=shown, times=self._times, observer=self._observer, transport=self._transport)
        )
        return _Fabric(settings, client)


@asynccontextmanager
async def open_fabrics(
    *,
    credentials: protocols.CredentialStore,
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Fabrics]:
    """No UFMs yet; all clients are closed at the end."""
    async with AsyncExitStack() as stack:
        yield Fabrics(stack, credentials=credentials, times=times, observer=observer, transport=transport)
