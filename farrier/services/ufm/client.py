"""`farrier.protocols.Fabrics`: one `UfmClient` for each site's UFM.

One reading of a UFM is used for all partitions for some seconds. Concurrent callers wait for one request. After a
failure, no request is sent to the UFM for a short time. If farrier has changed a partition, it uses only readings that
began after this change.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio
import httpx
import msgspec
import structlog
from typing_extensions import override

from farrier import protocols
from farrier.config.sites import Sites, UfmSite
from farrier.model.partition.ufm import PartitionChange, Pkey, UfmError, UfmFailure
from farrier.services.http.breaker import Breaker
from farrier.services.http.client import Endpoint, HttpClient, Times, open_client
from farrier.services.http.messages import Garbled
from farrier.services.http.site_clients import SiteClients
from farrier.services.ufm import answers, requests
from farrier.services.ufm.answers import Listed
from farrier.services.ufm.service import FAILURES, UFM, pass_of

_log = structlog.stdlib.get_logger(__name__)

# This is a third of the time between two reads of a partition. Drift is detected a little later, but with a hundredth
# of the requests.
READING_KEPT = timedelta(seconds=10)
# Partitions are read one after the other. Without this pause, each read would wait for the unavailable UFM.
TROUBLE_KEPT = timedelta(seconds=5)
# Failures that would also affect a read of any other partition.
_OF_ALL = frozenset(
    {UfmFailure.AUTH, UfmFailure.TLS, UfmFailure.UNREACHABLE, UfmFailure.TIMEOUT, UfmFailure.BUSY, UfmFailure.FORBIDDEN}
)


class _Reading(msgspec.Struct, frozen=True):
    """A reading of UFM, and when this process began the reading. `turn` orders readings and changes."""

    began_at: float
    turn: int
    ports: Listed
    qos: Listed

    def pkey(self, number: int) -> Pkey | None:
        """Return the partition of this number. Raises `UfmError` if its entry cannot be decoded; this does not affect
        other partitions."""
        try:
            return answers.of_lists(number, self.ports, self.qos)
        except Garbled as error:
            raise FAILURES.garbled(requests.LIST_PORTS, error.detail) from None


class Ufm:
    """The client of one UFM."""

    def __init__(self, http: HttpClient[UfmError], *, clock: protocols.Clock, url: str, named: bool) -> None:
        self.url = url
        self.named = named
        self._http = http
        self._now = clock.monotonic
        self._one_at_a_time = anyio.Lock()
        self._reading: _Reading | None = None
        self._breaker: Breaker[UfmError] = Breaker(clock, pause=TROUBLE_KEPT)
        self._changed: dict[int, int] = {}
        self._turns = itertools.count(1)

    async def read(self, number: int, *, fresh: bool = False) -> Pkey | None:
        """Return a partition from a shared reading. With `fresh`, the reading must begin after this call."""
        since = next(self._turns) if fresh else 0
        async with self._one_at_a_time:
            reading = self._reading
            if reading is None or not self._serves(reading, max(since, self._changed.get(number, 0))):
                reading = await self._read_all()
            return reading.pkey(number)

    async def read_anew(self, number: int) -> Pkey | None:
        """Read a partition with a new request. A partition counts as absent only if it is also missing in the list of
        all partitions. A proxy in front of UFM may return 404 or `{}`, and farrier claims or releases a number if the
        partition is absent."""
        self._refuse_in_trouble()
        found: Pkey | None = None
        try:
            found = await self._http.send(requests.pkey(number), partial(answers.pkey, number))
        except UfmError as error:
            if error.failure in _OF_ALL:
                self._breaker.open(error)
            if error.failure is not UfmFailure.ABSENT:
                raise
        return found or await self.read(number, fresh=True)

    async def do(self, change: PartitionChange) -> None:
        """Send a change. Whatever the result of the change, earlier readings of this partition are not used any
        more."""
        try:
            await self._http.send(requests.of_change(change), answers.done)
        finally:
            self._changed[change.wanted.number] = next(self._turns)

    def _serves(self, reading: _Reading, since: int) -> bool:
        young = self._now() - reading.began_at < READING_KEPT.total_seconds()
        return young and reading.turn > since

    async def _read_all(self) -> _Reading:
        began_at, turn = self._now(), next(self._turns)
        self._refuse_in_trouble()
        try:
            ports = await self._http.send(requests.LIST_PORTS, answers.listed)
            services = await self._http.send(requests.LIST_QOS, answers.listed)
        except UfmError as error:
            self._breaker.open(error)
            raise
        self._breaker.close()
        self._reading = _Reading(began_at, turn, ports, services)
        return self._reading

    def _refuse_in_trouble(self) -> None:
        trouble = self._breaker.trouble()
        if trouble is not None:
            raise trouble.error.of_another(retry_after=trouble.error.retry_after)


@asynccontextmanager
async def open_ufm(
    settings: UfmSite,
    *,
    credentials: protocols.CredentialStore,
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Ufm]:
    """Open a client of one UFM. This function sends no request. Raises `ConfigError` for an unusable CA file."""
    if not settings.url.startswith("https://"):
        _log.warning("ufm.not_encrypted", url=settings.url)
    endpoint = Endpoint(
        root=f"{settings.url}/{'ufmRestV3' if settings.token else 'ufmRest'}/",
        ca_file=settings.ca_file,
        read_timeout=settings.read_timeout,
        change_timeout=settings.change_timeout,
    )
    credential = partial(pass_of, credentials, settings)
    async with open_client(
        UFM, endpoint, credential=credential, times=times, observer=observer, transport=transport
    ) as http:
        yield Ufm(http, clock=times.clock, url=settings.url, named=settings.partition_names)


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
