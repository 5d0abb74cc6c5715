"""Returns the configured sites and the clients of their MAAS regions, for commands that send requests to a region."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import override

from farrier import wiring
from farrier.clock import MonotonicClock
from farrier.config import Config, site_files
from farrier.config.sites import Sites
from farrier.errors import ConfigError
from farrier.protocols import ServiceObserver
from farrier.services.http.client import Times
from farrier.services.maas.regions import Regions, settings_of


class Unobserved(ServiceObserver):
    """An observer that ignores requests, because a command does not count them."""

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        return None


def configured(settings: Config) -> Sites:
    """Return the sites that the daemon would use."""
    if not settings.sites.directory:
        raise ConfigError(
            "no directory of sites is configured; set sites.directory in the file that --config names, or "
            "FARRIER_SITES_DIRECTORY"
        )
    return site_files.load(settings.sites.directory, settings.agents)


@asynccontextmanager
async def opened(settings: Config, sites: Sites) -> AsyncIterator[Regions]:
    """Open the clients of the regions of these sites."""
    observer = Unobserved()
    async with (
        wiring.credentials(settings, observer=observer) as store,
        Regions.open(credentials=store, times=Times(clock=MonotonicClock()), observer=observer) as regions,
    ):
        await regions.use(settings_of(sites))
        yield regions
