"""The BMC client over Redfish: DMTF's asyncio library, basic authentication, no sessions.

Opened by `wiring`, called by the node's steps through `protocols.BmcClient`. Guarantees: one call in flight
per BMC; one deadline per pass, which waiting for a slot does not use up; every failure is a `BmcError` with a
class, whose text and traceback hold no secret. Sends GETs only, and nothing outside the configured networks.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import aiohttp
import anyio
import structlog
from redfish import aio as redfish
from typing_extensions import override
from yarl import URL

from farrier import protocols
from farrier.model.bmc import BmcError, BmcFailure, BmcReading, BmcTarget
from farrier.model.credential import Credential
from farrier.model.params import PowerRequest
from farrier.services import address, bmc_failure, bmc_resources
from farrier.services.bmc_probe import Found, Probe
from farrier.services.bmc_settings import BmcSettings
from farrier.services.transport import open_sessions
from farrier.services.trust import Insecure, Trust

log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def open_bmc(
    settings: BmcSettings, *, credentials: protocols.CredentialStore, observer: protocols.ServiceObserver
) -> AsyncIterator[RedfishBmc]:
    """The client, for as long as the context lasts. Raises `ConfigError` for an unusable TLS policy."""
    trusts = {settings.trust, *settings.trust_by_host.values()}
    if Insecure() in trusts:
        hosts = [host for host, trust in settings.trust_by_host.items() if trust == Insecure()]
        log.warning("bmc_tls_not_verified", hosts="all" if settings.trust == Insecure() else hosts)
    networks = address.Networks(settings.networks)
    async with open_sessions(trusts, networks=networks, connect_timeout=settings.connect_timeout) as sessions:
        yield RedfishBmc(settings, sessions, credentials=credentials, observer=observer)


class RedfishBmc(protocols.BmcClient):
    """The `BmcClient` over Redfish."""

    def __init__(
        self,
        settings: BmcSettings,
        sessions: Mapping[Trust, aiohttp.ClientSession],
        *,
        credentials: protocols.CredentialStore,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._credentials = credentials
        self._observer = observer
        self._slots = anyio.CapacityLimiter(settings.concurrency)
        # A lock lives as long as somebody holds it or waits for it.
        self._one_at_a_time: WeakValueDictionary[URL, anyio.Lock] = WeakValueDictionary()

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        credential = None
        try:
            url = address.parse(target.address)
            credential = await self._credentials.resolve(target.credential)
            return await self._read(target, url, credential)
        except Exception as error:
            failed = error
        # Out here the new exception carries neither the failed one nor its frames, which hold the headers.
        raise self._failure(failed, credential)

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        if target.system_path is None:
            raise ValueError("a read needs the system's path; verify finds it")
        return await self.verify(target)

    @override
    async def set_power(self, target: BmcTarget, wanted: PowerRequest, *, send: bool = True) -> BmcReading:
        raise BmcError(BmcFailure.UNSUPPORTED, "power cannot be set yet")

    async def _read(self, target: BmcTarget, url: URL, credential: Credential) -> BmcReading:
        lock = self._one_at_a_time.setdefault(url, anyio.Lock())
        async with lock, self._slots:
            client = redfish.AsyncRedfishClient(
                str(url), credential.username, credential.password, session=self._session(url)
            )
            probe = Probe(client, self._settings, observer=self._observer)
            found = await probe.run(target.system_path)
        return _reading(found, credential_version=credential.version, requests=probe.requests)

    def _session(self, url: URL) -> aiohttp.ClientSession:
        settings = self._settings
        return self._sessions[settings.trust_by_host.get(url.host or "", settings.trust)]

    def _failure(self, error: Exception, credential: Credential | None) -> BmcError:
        failure, detail = bmc_failure.of_exception(error)
        version = None
        if credential is not None:
            detail = bmc_failure.scrub(detail, credential)
            version = credential.version
        if failure is BmcFailure.INTERNAL:
            trace = "".join(traceback.format_exception(error))
            log.error("bmc_client_bug", traceback=bmc_failure.scrub(trace, credential) if credential else trace)
        return BmcError(failure, detail, credential_version=version)


def _reading(found: Found, *, credential_version: str, requests: int) -> BmcReading:
    system = found.system
    return BmcReading(
        power=found.power,
        system_path=found.system_path,
        manager_path=found.manager_path,
        serial=bmc_resources.text(system.get("SerialNumber")),
        uuid=bmc_resources.uuid(system),
        macs=found.macs,
        manufacturer=bmc_resources.text(system.get("Manufacturer")),
        model=bmc_resources.text(system.get("Model")),
        health=bmc_resources.health(system),
        credential_version=credential_version,
        requests=requests,
    )
