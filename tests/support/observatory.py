"""A simulated MAAS region for `tests.support.site`: real clients of it, and the loop that observes it.

Requests go through the transport in this process; no time passes between two tries of a request. The region's clock
stands still until the site's `wait` moves it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from farrier.config.sites import Site as SiteConfig
from farrier.handlers.maas_region.handler import REGION_KIND, RegionHandler
from farrier.io.kinds import maas_region as region_rows
from farrier.io.kinds.built_in import REGION_ROWS
from farrier.services.http.client import Times
from farrier.services.maas.regions import Regions
from farrier.services.maas.service import MaasSettings
from farrier.sim.maas import Region, RegionTransport
from tests.support.clock import no_pause
from tests.support.loop import Ledger
from tests.support.maas import KeyOfMaas
from tests.support.observed import Observed
from tests.support.owner import MovedClock, Owner
from tests.support.wire import Wire


class Observatory:
    """A simulated region, the real clients of it, and the loop that observes it. `observed` lists every request, also
    those of nodes; `clock` is the clients' clock; `wire` is the transport that a test puts before the region, or
    None."""

    def __init__(
        self,
        region: Region,
        regions: Regions,
        owner: Owner,
        *,
        config: SiteConfig,
        observed: Observed,
        clock: MovedClock,
    ) -> None:
        self.region = region
        self.regions = regions
        self.config = config
        self.observed = observed
        self.clock = clock
        self.wire: Wire | None = None
        self.ledger = Ledger()
        self.handler = RegionHandler({config.name: config})
        handler = REGION_KIND.guarded(self.handler)
        owner.add(REGION_KIND, handler, REGION_ROWS, services=regions, sink=self.ledger)

    def pass_time(self, by: timedelta) -> None:
        """Let time pass in the region and for its clients."""
        self.region.advance(by)
        self.clock.advance(by)


@asynccontextmanager
async def observatory(
    owner: Owner, region: Region | Wire | None, config: SiteConfig
) -> AsyncIterator[Observatory | None]:
    """Register the region's row and have `owner` run its loop; yields None without a region."""
    if region is None:
        yield None
        return
    assert config.maas is not None, "a site with a region has its URL in [maas]"
    wire = region if isinstance(region, Wire) else None
    region = region.region if isinstance(region, Wire) else region
    settings = MaasSettings(url=config.maas.url, key=config.maas.key)
    if wire is not None:
        settings = msgspec.structs.replace(settings, read_timeout=wire.patience)
    observed = Observed("maas")
    clock = MovedClock()
    times = Times(clock=clock, pause=no_pause)
    async with Regions.open(
        credentials=KeyOfMaas(), times=times, observer=observed, transport=wire or RegionTransport(region)
    ) as regions:
        await regions.use({config.name: settings})
        await region_rows.use(owner.pool, {config.name: config})
        seen = Observatory(region, regions, owner, config=config, observed=observed, clock=clock)
        seen.wire = wire
        yield seen
