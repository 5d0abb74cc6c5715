"""HTTP connections to BMCs: the route to each BMC, and one aiohttp session for all BMCs with the same TLS policy.

The BMC client opens these sessions for its own lifetime. A request is sent only to the checked addresses of the route
in its `Dial`, even if the name now resolves to other addresses. Secrets are added after the connection is made.
Connections are not reused: BMCs have faults with long-lived connections, and each idle TLS connection would cost a
quarter of a megabyte of memory. Requests use no cookies, and no proxy or netrc from the environment. aiohttp's
connection limit is off, because the wait in its queue would count as time of the BMC. No request is sent twice, and the
size of a response is limited.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from http import HTTPStatus
from typing import Any, TypeAlias

import aiohttp
import anyio
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from farrier.config import BmcTrustConfig
from farrier.services.bmc.address import HTTPS, number
from farrier.services.http.transport import sent_once
from farrier.services.http.trust import TlsPolicy, policy_of

# A system's resource has 2 to 20 KiB; a larger body is not a Redfish resource.
LARGEST_BODY_BYTES = 1024 * 1024
# Firmware sends cookies and policies of its web pages with each response, 9 KiB in one header; aiohttp allows 8 KiB.
LARGEST_HEADER_BYTES = 64 * 1024


Headers: TypeAlias = MutableMapping[str, str]
AddrInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]


Lookup: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
Check: TypeAlias = Callable[[Sequence[str]], None]


async def look_up(host: str) -> Sequence[str]:
    """Return the addresses of a name, as the system resolves it. Raises `OSError`."""
    found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(str(where[0]) for *_, where in found)


class Route:
    """The route of one call to a host. The name is resolved once, because a second query could return addresses that
    were not checked. `check` raises for addresses that are not allowed."""

    def __init__(self, host: str, check: Check, *, lookup: Lookup) -> None:
        self.host = host
        self._check = check
        self._lookup = lookup
        self.addresses: tuple[str, ...] = ()
        """The checked addresses; empty before `resolve`."""

    async def resolve(self) -> tuple[str, ...]:
        """Return the checked addresses, the same at each call. Raises `OSError` for a name without an address, and the
        errors of the check."""
        if not self.addresses:
            found = (self.host,) if number(self.host) is not None else tuple(await self._lookup(self.host))
            self._check(found)
            self.addresses = found
        return self.addresses


async def _nothing_more(_headers: Headers) -> None:
    pass


class Dial(msgspec.Struct, frozen=True):
    """The destination of a request. After TLS has proven the host, `connected` is called with the headers and may add
    headers."""

    route: Route
    connected: Callable[[Headers], Awaitable[None]] = _nothing_more


_DIAL: ContextVar[Dial] = ContextVar("farrier_dial")


@contextmanager
def dialling(dial: Dial) -> Iterator[None]:
    """Send the requests within this context to `dial`. Without this context, no request can be sent."""
    token = _DIAL.set(dial)
    try:
        yield
    finally:
        _DIAL.reset(token)


class _Checked(AbstractResolver):
    """A resolver that returns the checked addresses without a query to a name server."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in _DIAL.get().route.addresses
        ]

    @override
    async def close(self) -> None:
        pass


def _socket(info: AddrInfo) -> socket.socket:
    """Create a socket for a checked address. Raises `RuntimeError` for any other address."""
    family, kind, protocol, _, where = info
    if where[0] not in _DIAL.get().route.addresses:
        raise RuntimeError("the address to dial was not checked")
    return socket.socket(family, kind, protocol)


class _BmcConnector(aiohttp.TCPConnector):
    """Resolves the name, checks its addresses, connects, checks a pinned certificate, and only then calls
    `Dial.connected` to add the secret."""

    def __init__(self, policy: TlsPolicy) -> None:
        super().__init__(
            ssl=policy.context,
            limit=0,
            force_close=True,
            happy_eyeballs_delay=None,
            use_dns_cache=False,
            resolver=_Checked(),
            socket_factory=_socket,
        )
        self._digest = policy.digest

    @override
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        dial = _DIAL.get()
        await dial.route.resolve()
        connection = await super().connect(req, traces, timeout)
        try:
            self._check_pin(connection, dial.route.host)
            await dial.connected(req.headers)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_pin(self, connection: aiohttp.connector.Connection, host: str) -> None:
        """Raise `ServerFingerprintMismatch` if another certificate is pinned."""
        if self._digest is None:
            return
        assert connection.transport is not None, "the connection was just opened"
        certificate = connection.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        seen = hashlib.sha256(certificate).digest()
        if seen != self._digest:
            raise aiohttp.ServerFingerprintMismatch(self._digest, seen, host, HTTPS)


class BodyTooLarge(aiohttp.ClientPayloadError):
    """The body of a response exceeded `LARGEST_BODY_BYTES`, so the rest was not read."""


class _Bounded(aiohttp.ClientResponse):
    """A response that stops reading when its decompressed body exceeds `LARGEST_BODY_BYTES`. If the status is no
    success, the body may end early: an iDRAC8 closes the connection within the body of a 401."""

    whole: bytes | None = None

    @override
    async def read(self) -> bytes:
        if self.whole is None:
            body = bytearray()
            try:
                await self._read_into(body)
            except aiohttp.ClientError:
                if self.status < HTTPStatus.MULTIPLE_CHOICES:
                    raise
            self.whole = bytes(body)
        return self.whole

    async def _read_into(self, body: bytearray) -> None:
        try:
            async for chunk in self.content.iter_any():
                body += chunk
                if len(body) > LARGEST_BODY_BYTES:
                    raise BodyTooLarge
            await super().read()  # nothing is left to read
        except BaseException:
            self.close()
            raise

    @override
    def get_encoding(self) -> str:
        """Return the encoding that Redfish prescribes for JSON. A byte order mark is ignored."""
        return "utf-8-sig"


@asynccontextmanager
async def open_sessions(
    trusts: Collection[BmcTrustConfig], *, connect_timeout: timedelta
) -> AsyncIterator[Mapping[BmcTrustConfig, aiohttp.ClientSession]]:
    """Open a session for each policy; the context closes them. Raises `ConfigError` for an unusable policy."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for trust in trusts:
            session = aiohttp.ClientSession(
                connector=_BmcConnector(policy_of(trust)),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_Bounded,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout.total_seconds()),
                middlewares=(sent_once,),  # otherwise aiohttp would send a login again after a closed connection
                max_line_size=LARGEST_HEADER_BYTES,
                max_field_size=LARGEST_HEADER_BYTES,
                trust_env=False,
            )
            sessions[trust] = await stack.enter_async_context(session)
        yield sessions
