"""The BMC client over Redfish, with DMTF's asyncio library, and with basic authentication or sessions.

The client sends one call at a time to each BMC, begins a call's deadline only after the wait for other calls, and
limits failed logins. Every failure is a `BmcError` with a class, and its text and traceback contain no secret. The
client sends only GETs, except to switch power and to open or close a session. Each call checks the host against the
bindings of the reference, resolves the name once, and checks its addresses against the networks. A call connects after
these checks, and reads the secret last.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import lru_cache
from pathlib import Path

import aiohttp
import structlog
from redfish import aio as redfish
from typing_extensions import override
from yarl import URL

from farrier import protocols
from farrier.config import BmcConfig, BmcTrustConfig
from farrier.errors import ConfigError, LeaseLost
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, BmcReading, BmcTarget, NotYet
from farrier.services.bmc import failure as bmc_failure
from farrier.services.bmc import resources
from farrier.services.bmc.access import BmcAccess, BmcTimes, Shared
from farrier.services.bmc.address import BMCS
from farrier.services.bmc.exchange import Exchange
from farrier.services.bmc.kept import KeptConnections
from farrier.services.bmc.limiter import BmcLimiter
from farrier.services.bmc.logins import Logins, Schemes
from farrier.services.bmc.power import PowerChange
from farrier.services.bmc.probe import FoundSystem, Probe, read_system
from farrier.services.bmc.session_records import SessionRecords, open_records
from farrier.services.bmc.sessions import BmcSessions
from farrier.services.bmc.transport import Lookup, look_up, open_sessions
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.recent import RecentCredentials
from farrier.services.credentials.routes import Ways
from farrier.services.http.quoting import scrubbed

log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def open_bmc(
    config: BmcConfig,
    times: BmcTimes,
    *,
    credentials: protocols.CredentialStore,
    bindings: Bindings,
    observer: protocols.ServiceObserver,
    lookup: Lookup = look_up,
) -> AsyncIterator[RedfishBmc]:
    """Open the client, which closes with the context. Raises `ConfigError` for an unusable TLS policy."""
    usual = BmcTrustConfig(
        ca_file=config.ca_file, fingerprint=config.fingerprint, insecure=config.insecure, ciphers=config.ciphers
    )
    trusts = {usual, *config.hosts.values()}
    if any(trust.insecure for trust in trusts):
        hosts = [host for host, trust in config.hosts.items() if trust.insecure]
        log.warning("bmc.tls_not_verified", hosts="all" if usual.insecure else hosts)
    if any(trust.ciphers for trust in trusts):
        hosts = [host for host, trust in config.hosts.items() if trust.ciphers]
        log.warning("bmc.tls_other_ciphers", hosts="all" if usual.ciphers else hosts)
    ways = Ways(bindings, config.allowed_networks, lookup=lookup)
    with _records(config) as records:
        sessions = BmcSessions(records, times.clock)
        shared = Shared(
            schemes=Schemes(config.auth, _forced(config)),
            times=times,
            credentials=RecentCredentials(credentials, times.clock),
            limiter=BmcLimiter(config.concurrency, times.patience),
            logins=Logins(times.clock),
            sessions=sessions,
            observer=observer,
        )
        connections = KeptConnections(times.clock, most=config.kept_connections)
        bindings.on_change(connections.close_all)
        limit = config.connect_timeout
        async with open_sessions(trusts, connections, clock=times.clock, connect_timeout=limit) as opened:
            of_hosts = {host.lower(): opened[trust] for host, trust in config.hosts.items()}
            try:
                yield RedfishBmc(shared, opened[usual], of_hosts, ways)
            finally:
                await sessions.close()
                connections.close_all()


def _records(config: BmcConfig) -> AbstractContextManager[SessionRecords]:
    """Open the records of sessions. Raises `ConfigError` if sessions are required, but no directory is set."""
    # systemd separates several directories by colons; the first directory belongs to farrier.
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    directory = config.session_directory or (f"{state}/bmc-sessions" if state else "")
    if not directory and BmcAuth.SESSION in (config.auth, *_forced(config).values()):
        raise ConfigError(
            "bmc.auth is session, but bmc.session_directory is not set, so farrier could not close open "
            "sessions after a crash; set bmc.session_directory to a local directory"
        )
    return open_records(Path(directory)) if directory else nullcontext(SessionRecords())


def _forced(config: BmcConfig) -> Mapping[str, BmcAuth]:
    """Return the kind of authentication that the settings force, by host."""
    return {host: trust.auth for host, trust in config.hosts.items() if trust.auth is not None}


class RedfishBmc(protocols.BmcClient):
    """The `BmcClient` over Redfish."""

    def __init__(
        self,
        shared: Shared,
        http: aiohttp.ClientSession,
        http_of_hosts: Mapping[str, aiohttp.ClientSession],
        ways: Ways,
    ) -> None:
        self._shared = shared
        self._http = http
        self._http_of_hosts = http_of_hosts
        self._ways = ways
        self._client_of = lru_cache(BMCS)(self._client)

    @property
    def credentials(self) -> RecentCredentials:
        """The secrets as the regular reads use them."""
        return self._shared.credentials

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        async def verify(exchange: Exchange) -> FoundSystem:
            async with exchange.slot():
                return await Probe(exchange).run(target.system_path, macs=macs)

        return await self._call(target, verify)

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        path = _known(target)

        async def read(exchange: Exchange) -> FoundSystem:
            async with exchange.slot():
                return await read_system(exchange, path)

        return await self._call(target, read, is_regular=True)

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        path = _known(target)

        async def switch(exchange: Exchange) -> FoundSystem:
            return await PowerChange(exchange, path, graceful=graceful).run(wanted, send=send)

        return await self._call(target, switch)

    async def _call(
        self, target: BmcTarget, work: Callable[[Exchange], Awaitable[FoundSystem]], *, is_regular: bool = False
    ) -> BmcReading:
        exchange = None
        try:
            exchange = Exchange(self._access(target, is_regular=is_regular), self._shared)
            return _reading(await work(exchange), exchange)
        except LeaseLost:
            raise  # nothing was sent, so nothing of this call may be stored
        except Exception as error:
            failure = self._failure(error, exchange)
            if failure.failure is BmcFailure.AUTH:
                self._shared.credentials.forget(target.credential)
        # The new exception is raised outside the `except` block, so it contains neither the old exception nor its
        # frames, which contain the headers.
        raise failure

    def _access(self, target: BmcTarget, *, is_regular: bool) -> BmcAccess:
        bmc, route = self._ways.to(target)
        return BmcAccess(
            bmc=bmc,
            route=route,
            reference=target.credential,
            http=self._http_of(bmc),
            client=self._client_of(bmc),
            only_reads=target.only_reads,
            is_regular=is_regular,
        )

    def _http_of(self, bmc: URL) -> aiohttp.ClientSession:
        return self._http_of_hosts.get(bmc.host or "", self._http)

    def _client(self, bmc: URL) -> redfish.AsyncRedfishClient:
        return redfish.AsyncRedfishClient(str(bmc), session=self._http_of(bmc))

    def _failure(self, error: Exception, exchange: Exchange | None) -> BmcError:
        credential = exchange.credential if exchange is not None else None
        failure, detail = bmc_failure.of_exception(error)
        secrets = exchange.secrets if exchange is not None else ()
        if failure is BmcFailure.INTERNAL:
            trace = "".join(traceback.format_exception(error))
            log.error("bmc.client_bug", traceback=scrubbed(trace, secrets))
        return (NotYet if isinstance(error, NotYet) else BmcError)(
            failure,
            scrubbed(detail, secrets),
            credential_version=credential.version if credential is not None else None,
            retry_after=bmc_failure.retry_after(error),
            # If the BMC details are wrong or the secret cannot be read, the call does not count as a request to the
            # BMC.
            dialled=exchange is not None and exchange.requests > 0 and not _is_ours(error, failure),
            sent=exchange is not None and exchange.sent,
        )


def _known(target: BmcTarget) -> str:
    if target.system_path is None:
        raise ValueError("a target without a system_path cannot be read or switched; verify finds the path")
    return target.system_path


def _is_ours(error: Exception, failure: BmcFailure) -> bool:
    return failure is BmcFailure.INCOMPLETE or bmc_failure.is_of_credential(error)


def _reading(found: FoundSystem, exchange: Exchange) -> BmcReading:
    assert exchange.credential is not None, "every read of a system requires the credential"
    system = found.system
    return BmcReading(
        power=resources.power(system),
        system_path=found.system_path,
        serial=resources.text(system.get("SerialNumber")),
        uuid=resources.uuid(system),
        macs=found.macs,
        manufacturer=resources.text(system.get("Manufacturer")),
        model=resources.text(system.get("Model")),
        health=resources.health(system),
        credential_version=exchange.credential.version,
    )
