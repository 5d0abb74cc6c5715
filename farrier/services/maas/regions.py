"""`farrier.protocols.Regions`: one client for each site's MAAS region, with a queue of its requests.

The queue limits requests to a region to a few at a time, and refuses further requests while it is long or the region
refuses all requests. A refused caller gets an error with a constant text and a time to retry, and keeps its place:
callers are served in the order in which they first came, so no caller waits while later ones pass. After a failure that
affects every node, one node at a time probes the region. A region with unchanged settings keeps its queue.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta

import anyio
import msgspec
from typing_extensions import override

from farrier import protocols
from farrier.config.sites import Sites
from farrier.model.maas.reading import MaasError
from farrier.model.maas.reading import MaasFailure as F
from farrier.services.http.breaker import Breaker
from farrier.services.http.site_clients import Kept, SiteClients
from farrier.services.maas.client import open_maas
from farrier.services.maas.service import CONCURRENCY, MaasSettings

# One of the region's slots is reserved for its observer, on which all nodes depend, unless requests are so short that a
# slot is soon free.
SLOTS = CONCURRENCY - 1
QUICK = timedelta(milliseconds=250)
# If a node would have to wait longer, it retries later, because a waiting node occupies a slot of the loop that another
# node could use.
PATIENCE = timedelta(seconds=10)
# The limits of the delay of a retry. It has an upper limit because the queue may become shorter sooner.
SHORTEST_AGAIN = timedelta(seconds=1)
LONGEST_AGAIN = timedelta(seconds=60)
# A caller that comes back later than this after its time has lost its place: its node may be gone. The loop may start a
# step this much later than it is due.
PLACE_KEPT = timedelta(seconds=30)
# The first estimate of how long a slot is used; later, this is measured. It is low, so that the queue may grow at
# first.
_FIRST_GUESS_SECONDS = 0.02
# The weight of each new measurement in the average, which covers about the last twenty measurements.
_WEIGHT = 0.1
# A broken connection is restored soon, but a refused key needs an operator.
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(seconds=60)
_OF_ALL = frozenset({F.AUTH, F.CLOCK_SKEW, F.TLS, F.UNREACHABLE})


class WaitingCallers:
    """The callers without a slot, in the order in which they first came. A waiting caller has a place without end; a
    refused caller keeps its place until a time."""

    def __init__(self) -> None:
        self._until: dict[Hashable, float] = {}
        self._ends_at = math.inf  # no place ends earlier

    def before(self, caller: Hashable, now: float) -> int:
        """Return the number of callers before this caller. A caller without a place comes last. Places whose time is
        over are removed."""
        if self._ends_at < now:
            self._until = {each: until for each, until in self._until.items() if until >= now}
            self._ends_at = min(self._until.values(), default=math.inf)
        if caller not in self._until:
            return len(self._until)
        return next(count for count, each in enumerate(self._until) if each == caller)

    def keep(self, caller: Hashable, *, until: float) -> None:
        """Keep the caller's place until a time, by the clock of `before`."""
        self._until[caller] = until
        self._ends_at = min(self._ends_at, until)

    @contextmanager
    def waiting(self, caller: Hashable) -> Iterator[None]:
        """Keep the caller's place while the block waits. Afterwards, the caller has no place, unless `keep` was called
        in the block."""
        self._until[caller] = math.inf
        try:
            yield
        finally:
            if self._until.get(caller) == math.inf:
                del self._until[caller]


class RegionLimiter:
    """The queue of requests to one region, and the client of the region."""

    def __init__(self, client: protocols.MaasClient, *, site: str, clock: protocols.Clock) -> None:
        self.client = client
        self._site = site
        self._clock = clock
        self._slots = anyio.CapacityLimiter(SLOTS)
        self._takes = _FIRST_GUESS_SECONDS
        self._places = WaitingCallers()
        self._breaker: Breaker[MaasError] = Breaker(clock, pause=_FIRST_PAUSE, longest=_LONGEST_PAUSE, one_tries=True)

    def forget_trouble(self) -> None:
        """Close the breaker because the cause may have been removed. The next request is sent."""
        self._breaker.close()

    @asynccontextmanager
    async def slot(self, caller: Hashable) -> AsyncIterator[protocols.MaasClient]:
        """Wait for a slot, and keep it for a few requests of the client. Raises `MaasError` if no slot is free in
        time."""
        self._refuse_after_failure()
        wait = self._wait_of(caller)
        if wait > PATIENCE.total_seconds():
            raise self._too_long(caller, wait)
        me = object()
        with self._places.waiting(caller):
            try:
                with anyio.fail_after(PATIENCE.total_seconds()):
                    await self._slots.acquire_on_behalf_of(me)
            except TimeoutError:
                raise self._too_long(caller, self._wait_of(caller)) from None
        began = self._clock.monotonic()
        try:
            yield self.client
        except MaasError as error:
            if error.failure in _OF_ALL:
                self._breaker.open(error, began=began)
            else:
                self._breaker.close()
            raise
        else:
            self._breaker.close()
        finally:
            self._takes += _WEIGHT * (self._clock.monotonic() - began - self._takes)
            self._slots.release_on_behalf_of(me)
            self._slots.total_tokens = CONCURRENCY if self._takes < QUICK.total_seconds() else SLOTS

    def _refuse_after_failure(self) -> None:
        """Raise the error of an earlier request if the breaker is open."""
        trouble = self._breaker.trouble()
        if trouble is not None:
            spread = random.uniform(0, 1) * trouble.pause  # only spreads the retries, and protects nothing
            raise trouble.error.of_another(retry_after=trouble.left + spread) from None

    def _wait_of(self, caller: Hashable) -> float:
        """Return the estimated number of seconds until the caller has a slot."""
        before = self._places.before(caller, self._clock.monotonic())
        free = max(self._slots.available_tokens, 0)
        return max(before + 1 - free, 0) * self._takes / self._slots.total_tokens

    def _too_long(self, caller: Hashable, wait: float) -> MaasError:
        """Return the error for a refused caller, which keeps its place. The caller retries shortly before its turn."""
        again = max(wait - PATIENCE.total_seconds() / 2, SHORTEST_AGAIN.total_seconds())
        longest = LONGEST_AGAIN.total_seconds()
        if again > longest:
            again = longest * random.uniform(0.5, 1)  # only spreads the retries; protects nothing
        self._places.keep(caller, until=self._clock.monotonic() + again + PLACE_KEPT.total_seconds())
        detail = (
            f"this replica's requests to site {self._site} are queued for more than {PATIENCE.total_seconds():.0f} s"
        )
        return MaasError(F.BUSY, detail, retry_after=timedelta(seconds=again), operation="slot")


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
            raise MaasError(F.UNREACHABLE, f"site {site} has no region in this controller's settings", operation="slot")
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
