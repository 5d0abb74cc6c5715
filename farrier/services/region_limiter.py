"""Limits requests to one MAAS region to a few at a time, and refuses further requests while the queue is long or the
region refuses all requests.

A refused caller gets an error with a constant text and a time to retry. Each further caller gets a slightly later time,
so that a thousand callers do not retry together. After a failure that affects every node, one node at a time probes the
region.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio

from farrier import protocols
from farrier.model.maas import MaasError
from farrier.model.maas import MaasFailure as F
from farrier.services.breaker import Breaker
from farrier.services.maas_service import CONCURRENCY

# One of the region's slots is reserved for its observer, on which all nodes depend, unless requests are so short that a
# slot is soon free.
SLOTS = CONCURRENCY - 1
QUICK = timedelta(milliseconds=250)
# If a node would have to wait longer, it retries later, because a waiting node occupies a slot of the loop that another
# node could use.
PATIENCE = timedelta(seconds=10)
# The longest delay of a retry. It is limited because the queue may become shorter sooner.
LONGEST_AGAIN = timedelta(seconds=60)
# The first estimate of how long a slot is used; later, this is measured. It is low, so that the queue may grow at
# first.
_FIRST_GUESS_SECONDS = 0.02
# The weight of each new measurement in the average, which covers about the last twenty measurements.
_WEIGHT = 0.1
# A broken connection is restored soon, but a refused key needs an operator.
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(seconds=60)
_OF_ALL = frozenset({F.AUTH, F.CLOCK_SKEW, F.TLS, F.UNREACHABLE})


class RegionLimiter:
    """The queue of requests to one region, and the client of the region."""

    def __init__(self, client: protocols.MaasClient, *, site: str, clock: protocols.Clock) -> None:
        self.client = client
        self._site = site
        self._clock = clock
        self._slots = anyio.CapacityLimiter(SLOTS)
        self._takes = _FIRST_GUESS_SECONDS
        self._promised = 0.0
        self._breaker: Breaker[MaasError] = Breaker(clock, pause=_FIRST_PAUSE, longest=_LONGEST_PAUSE, one_tries=True)

    def forget_trouble(self) -> None:
        """Close the breaker because the cause may have been removed. The next request is sent."""
        self._breaker.close()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[protocols.MaasClient]:
        """Wait for a slot, and keep it for a few requests of the client. Raises `MaasError` if no slot is free in
        time."""
        self._refuse()
        me = object()
        try:
            with anyio.fail_after(PATIENCE.total_seconds()):
                await self._slots.acquire_on_behalf_of(me)
        except TimeoutError:
            raise self._too_long(PATIENCE.total_seconds()) from None
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

    def _refuse(self) -> None:
        """Raise `MaasError` if the breaker is open or the queue is too long."""
        trouble = self._breaker.trouble()
        if trouble is not None:
            spread = random.uniform(0, 1) * trouble.pause  # only spreads the retries, and protects nothing
            raise trouble.error.of_another(retry_after=trouble.left + spread) from None
        waiting = self._slots.statistics().tasks_waiting
        wait = (waiting + 1) * self._takes / self._slots.total_tokens if self._slots.available_tokens <= 0 else 0.0
        if wait > PATIENCE.total_seconds():
            raise self._too_long(wait)

    def _too_long(self, wait: float) -> MaasError:
        """Return the error for a refused caller. The caller's time to retry is later than the times of earlier refused
        callers."""
        now, longest = self._clock.monotonic(), LONGEST_AGAIN.total_seconds()
        self._promised = min(max(self._promised, now + wait) + self._takes / self._slots.total_tokens, now + longest)
        # The time is rather too early than too late: a retry that is refused again costs nothing, but an empty queue
        # wastes slots.
        again = (self._promised - now) * random.uniform(0.5, 1)  # only spreads the retries; protects nothing
        detail = (
            f"this replica's requests to site {self._site} are queued for more than {PATIENCE.total_seconds():.0f} s"
        )
        return MaasError(F.BUSY, detail, retry_after=timedelta(seconds=again), operation="slot")
