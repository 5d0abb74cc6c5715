"""Connections to one MAAS region: a signed request goes out, its answer comes back as it is, no longer than it may be.

Used by `maas_transport`. Requests go straight to a transport of httpx: of what its client does around that, a region
needs nothing (no cookie is kept, no redirect followed), and it is half of what a request costs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx
import msgspec
import structlog

from farrier.services import maas_failure
from farrier.services.aio_transport import AioTransport
from farrier.services.answer import Answer, Garbled, received
from farrier.services.maas_requests import Request
from farrier.services.trust import verifying

_log = structlog.stdlib.get_logger(__name__)

# A region has four workers with four requests each for everybody; more of ours would only queue inside it.
CONCURRENCY = 4
# Fifty machines, the most that are asked for together, have 2 MB; a thousand events half of one.
LARGEST_BODY_BYTES = 8 * 1024 * 1024

# So that nothing grows behind the bound.
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "farrier"}


class MaasSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which region, and how to speak to it. `url` ends in `/MAAS`."""

    url: str
    ca_file: Path | None = None
    agent_name: str = "farrier"
    # Each holds a slot of the region while addresses are probed and power is asked for, up to minutes.
    deploys_at_once: int = 2
    connect_timeout: timedelta = timedelta(seconds=5)
    # Fifty machines take a second, and a read may be made again.
    read_timeout: timedelta = timedelta(seconds=15)
    # The region does power and remote calls inside the request, which may last longer: what became of it is read
    # afterwards. A step that reads, changes and is not to be interrupted is over within a minute.
    change_timeout: timedelta = timedelta(seconds=45)


class Wire:
    """The connections, and how a request is put on one."""

    def __init__(self, settings: MaasSettings, transport: httpx.AsyncBaseTransport) -> None:
        self._root = f"{settings.url.rstrip('/')}/api/2.0/"
        self._transport = transport

    async def exchange(self, request: Request, authorization: str) -> Answer:
        """Send it once. Raises what httpx raises, and `MaasError` for an answer that is too large."""
        response = await self._transport.handle_async_request(self._written(request, authorization))
        assert isinstance(response.stream, httpx.AsyncByteStream), "it is an asynchronous transport's"
        try:
            return await received(response, response.stream, most=LARGEST_BODY_BYTES)
        except Garbled as error:
            raise maas_failure.garbled(request, error.detail) from None
        finally:
            await response.stream.aclose()

    def _written(self, request: Request, authorization: str) -> httpx.Request:
        """Encoded here: httpx would do it at twice the cost, for all it could have been given instead."""
        headers = {**_HEADERS, "Authorization": authorization}
        query = f"?{urlencode(request.query)}" if request.query else ""
        if request.form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        form = urlencode(request.form).encode()
        return httpx.Request(request.method, f"{self._root}{request.path}{query}", headers=headers, content=form)


@asynccontextmanager
async def open_wire(
    settings: MaasSettings, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Wire]:
    """Connections to the region, or over `transport`. Raises `ConfigError` for an unusable file of authorities."""
    context = verifying(settings.ca_file)
    if not settings.url.startswith("https://"):
        _log.warning("maas.not_encrypted", url=settings.url)
    own = AioTransport(context=context, connect_timeout=settings.connect_timeout) if transport is None else transport
    async with own as opened:
        yield Wire(settings, opened)
