"""HTTP connections to BMCs: the route to each BMC, and one aiohttp session for all BMCs with the same TLS policy.

The BMC client opens these sessions for its own lifetime. A request is sent only to the checked addresses of the route
in its `Dial`, even if the name now resolves to other addresses. Secrets are added after the connection is made. A read
may use the kept connection of its BMC (`kept`), whose addresses were checked when it was opened. Any other request gets
a connection of its own. Requests use no cookies, and no proxy or netrc from the environment. aiohttp's connection limit
is off, because the wait in its queue would count as time of the BMC. The size of a response is limited. A request is
sent again only if it is a read, and if the BMC ended the kept connection without a response.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
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
from farrier.protocols import Clock
from farrier.services.bmc import kept
from farrier.services.bmc.address import HTTPS, number
from farrier.services.bmc.kept import KeptConnection, KeptConnections
from farrier.services.bmc.tls import ResumingContext
from farrier.services.http.transport import ConnectionLost
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


async def _anonymous(_headers: Headers) -> Hashable:
    return None


def _without_record() -> None:
    pass


class Dial(msgspec.Struct, kw_only=True):
    """The destination of a request. After TLS has proven the host, `authenticate` adds headers, and returns the secret
    that they show. `begin` is called directly before the request is sent.

    The connector sets `link`. A connection is reused only with the secret that the BMC has accepted on it. So if the
    BMC ends a reused connection without a response, the request may be sent again."""

    route: Route
    authenticate: Callable[[Headers], Awaitable[Hashable]] = _anonymous
    begin: Callable[[], None] = _without_record
    link: KeptConnection | None = None


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
    """Returns the kept connection of the BMC, or resolves the name, checks its addresses, connects, and checks a pinned
    certificate. Only then it calls `Dial.authenticate` to add the secret."""

    def __init__(self, policy: TlsPolicy, connections: KeptConnections) -> None:
        super().__init__(
            ssl=policy.context,
            limit=0,
            keepalive_timeout=2 * kept.IDLE.total_seconds(),  # `KeptConnections` ends its connections earlier
            happy_eyeballs_delay=None,
            use_dns_cache=False,
            resolver=_Checked(),
            socket_factory=_socket,
        )
        self._digest = policy.digest
        self._connections = connections

    @override
    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        dial, place = _DIAL.get(), (req.url.raw_host or "", req.url.port or HTTPS)
        reads = req.method == "GET"
        link = self._connections.take(place, reads=reads)
        while True:
            if link is None:
                await dial.route.resolve()
            connection = await super().connect(req, traces, timeout)
            try:
                if link is None:
                    link = self._opened(connection, place, dial.route.host)
                    self._connections.opened(link, reads=reads)
                identity = await dial.authenticate(req.headers)
                if not link.reused or (link.identity == identity and link.protocol.is_connected()):
                    dial.link, link.identity = link, identity
                    dial.begin()
                    return connection
            except BaseException:
                self._end(link, connection)
                raise
            self._end(link, connection)
            link = None

    def _end(self, link: KeptConnection | None, connection: aiohttp.connector.Connection) -> None:
        if link is not None:
            self._connections.close(link, at_once=True)
        connection.close()

    def _opened(self, connection: aiohttp.connector.Connection, place: kept.Place, host: str) -> KeptConnection:
        """Return the link for a new connection. Raises `ServerFingerprintMismatch` if another certificate is pinned."""
        protocol, transport = connection.protocol, connection.transport
        assert protocol is not None and transport is not None, "the connection was just opened"
        tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
        if self._digest is not None:
            seen = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").digest()
            if seen != self._digest:
                raise aiohttp.ServerFingerprintMismatch(self._digest, seen, host, HTTPS)
        return KeptConnection(place, protocol, tls)


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


class _Sending:
    """Middleware that reports each response to the kept connections, and that decides whether a request is sent again;
    aiohttp itself would repeat every GET."""

    def __init__(self, context: ResumingContext, connections: KeptConnections) -> None:
        self._context = context
        self._connections = connections

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        dial = _DIAL.get()
        try:
            response = await self._sent(dial, request, handler)
        except aiohttp.ClientConnectorError:  # the BMC may refuse connections because it has too many
            self._connections.give_up((request.url.raw_host or "", request.url.port or HTTPS))
            self._context.forget(request.url.raw_host or "")
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise ConnectionLost(error) from error
        if dial.link is not None:
            self._connections.responded(dial.link, response)
        return response

    async def _sent(
        self, dial: Dial, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if dial.link is None or not dial.link.reused:
                raise
            self._connections.give_up(dial.link.place)
            dial.link = None
        return await handler(request)


@asynccontextmanager
async def open_sessions(
    trusts: Collection[BmcTrustConfig], connections: KeptConnections, *, clock: Clock, connect_timeout: timedelta
) -> AsyncIterator[Mapping[BmcTrustConfig, aiohttp.ClientSession]]:
    """Open a session for each policy; the context closes them. Raises `ConfigError` for an unusable policy."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for trust in trusts:
            context = ResumingContext.at(clock)
            session = aiohttp.ClientSession(
                connector=_BmcConnector(policy_of(trust, context), connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=_Bounded,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout.total_seconds()),
                middlewares=(_Sending(context, connections),),
                max_line_size=LARGEST_HEADER_BYTES,
                max_field_size=LARGEST_HEADER_BYTES,
                trust_env=False,
            )
            sessions[trust] = await stack.enter_async_context(session)
        yield sessions
