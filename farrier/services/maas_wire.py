"""Connections to one MAAS region: a signed request goes out, its answer comes back as it is, no longer than it may be.

Used by `maas_transport`. Requests go straight to httpx's transport: of what its client does around that, a region needs
nothing (no cookie is kept, no redirect followed), and it is half of what a request costs.
"""

from __future__ import annotations

import importlib.util
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx
import msgspec
import structlog

from farrier.services import maas_failure
from farrier.services.maas_failure import Answer
from farrier.services.maas_requests import Request
from farrier.services.trust import CaFile, SystemCa, connector_ssl

_log = structlog.stdlib.get_logger(__name__)

# A region has four workers with four requests each for everybody; more of ours would only queue inside it.
CONCURRENCY = 4
# Fifty machines, the most that are asked for together, have 2 MB; a thousand events half of one.
LARGEST_BODY_BYTES = 8 * 1024 * 1024

# So that nothing grows behind the bound.
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "farrier"}

# httpcore tries to import it several times a request, and looking for what is not there costs as much as signing.
if "sniffio" not in sys.modules and importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # as the import system marks what cannot be imported


class MaasSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which region, and how to speak to it. `url` ends in `/MAAS`."""

    url: str
    ca_file: Path | None = None
    agent_name: str = "farrier"
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
        # How long all of it may take is the caller's.
        self._extensions = {"timeout": {"connect": settings.connect_timeout.total_seconds()}}
        self._transport = transport

    async def exchange(self, request: Request, authorization: str) -> Answer:
        """Send it once. Raises what httpx raises, and `MaasError` for an answer that is too large."""
        form: dict[str, list[str]] = {}
        for name, value in request.form:
            form.setdefault(name, []).append(value)
        response = await self._transport.handle_async_request(
            httpx.Request(
                request.method,
                f"{self._root}{request.path}",
                params=request.query or None,
                data=form or None,
                headers={**_HEADERS, "Authorization": authorization},
                extensions=self._extensions,
            )
        )
        assert isinstance(response.stream, httpx.AsyncByteStream), "it is an asynchronous transport's"
        try:
            return Answer(
                status=response.status_code,
                body=await _bounded(request, response.stream),
                content_type=response.headers.get("Content-Type", ""),
                retry_after=response.headers.get("Retry-After", ""),
            )
        finally:
            await response.stream.aclose()


@asynccontextmanager
async def open_wire(
    settings: MaasSettings, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Wire]:
    """Connections to the region, or over `transport`. Raises `ConfigError` for an unusable file of authorities."""
    context = connector_ssl(CaFile(settings.ca_file) if settings.ca_file else SystemCa())
    assert isinstance(context, ssl.SSLContext), "neither a pin nor insecure can be asked for"
    if not settings.url.startswith("https://"):
        _log.warning("maas.not_encrypted", url=settings.url)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=CONCURRENCY)
    async with transport or httpx.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits) as opened:
        yield Wire(settings, opened)


async def _bounded(request: Request, stream: httpx.AsyncByteStream) -> bytes:
    body = bytearray()
    async for chunk in stream:
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            detail = f"the answer is larger than {LARGEST_BODY_BYTES} bytes"
            raise maas_failure.garbled(request, detail)
    return bytes(body)
