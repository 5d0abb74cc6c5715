"""An `httpx.AsyncBaseTransport` that sends requests over aiohttp, which takes half the CPU time of httpx's transport.

The transport sends each request at most once and unchanged, without redirects, cookies, proxies, decompression or a
queue. The transport raises each failure as an exception of httpx. `ConnectError`, `ConnectTimeout` and
`UnsupportedProtocol` mean that the request was not sent; after any other exception, the request may have arrived. The
caller sets the time limit.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final, NoReturn
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace
from typing_extensions import override
from yarl import URL

# A connection that is idle for longer than this is closed. Servers keep idle connections for a minute or more, so
# farrier rarely sends on a connection that the server is closing.
KEPT = timedelta(seconds=5)

# A ValueError means that a header cannot be sent, or that the host is invalid.
_FORESEEN = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)

# The first matching entry names the exception of httpx; any other error becomes a `ReadError`. If aiohttp did not send
# a request, it raises the error before it has a connection, and never afterwards.
_KINDS: Final[tuple[tuple[type[Exception], type[httpx.TransportError]], ...]] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.NonHttpUrlClientError, httpx.UnsupportedProtocol),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (HttpProcessingError, httpx.RemoteProtocolError),
    (ValueError, httpx.LocalProtocolError),
)


class ConnectionLost(aiohttp.ClientConnectionError):
    """The connection ended during a request. aiohttp does not send the request again after this error."""

    def __init__(self, reason: aiohttp.ClientError) -> None:
        super().__init__(*reason.args)
        self.reason = reason


async def sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Middleware that raises `ConnectionLost` instead of an error after which aiohttp would send a GET again. Only the
    caller may decide to retry."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # the request was not sent, and aiohttp does not send it again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionLost(error) from error


class AioTransport(httpx.AsyncBaseTransport):
    """The connections of one client. The connections are opened in the running event loop, and `aclose` closes them."""

    def __init__(self, *, context: ssl.SSLContext, connect_timeout: timedelta) -> None:
        self._session = aiohttp.ClientSession(
            connector=_Connector(context),
            # The time limit of a connection covers the resolution of the name, the connection and the TLS handshake.
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout.total_seconds()),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Otherwise aiohttp would add the type application/octet-stream to a POST without a body.
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            middlewares=(sent_once,),
            trust_env=False,
        )

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request once, and return the response with its body unread."""
        body, url = await request.aread(), request.url
        try:
            response = await self._session.request(
                request.method,
                # Every byte stays unchanged, but user and password are omitted, because aiohttp would make a header of
                # them.
                URL(f"{url.scheme}://{url.netloc.decode()}{url.raw_path.decode()}", encoded=True),
                headers=[(name.decode(), value.decode()) for name, value in request.headers.raw],
                data=body or None,
                allow_redirects=False,
            )
        except _FORESEEN as error:
            _raise(error, request)
        if response.status == httpx.codes.SWITCHING_PROTOCOLS:
            response.close()
            raise httpx.RemoteProtocolError("the response uses another protocol", request=request)
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(response, request))

    @override
    async def aclose(self) -> None:
        await self._session.close()


class _Connector(aiohttp.TCPConnector):
    """Closes an idle connection that has unread data: an end of the stream, or an unrequested response. aiohttp would
    reuse the connection, and then lose the request or return the unrequested response."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(
            ssl=context,
            limit=0,
            keepalive_timeout=KEPT.total_seconds(),
            # Each connection resolves the name again, so errors of the resolution are those of the system's resolver.
            use_dns_cache=False,
            resolver=aiohttp.ThreadedResolver(),
        )
        # Unread data on a connection that has carried no request is part of its handshake.
        self._used: WeakSet[ResponseHandler] = WeakSet()

    @override
    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout) -> Connection:
        """Return a new connection, or an idle one without unread data."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None, "the connection was just opened or reused"
            if protocol not in self._used:
                self._used.add(protocol)
                if protocol.closed is not None:
                    protocol.closed.add_done_callback(_take_note)
                return connection
            assert protocol.transport is not None, "aiohttp reuses only open connections"
            unread = select.poll()
            unread.register(protocol.transport.get_extra_info("socket").fileno(), select.POLLIN)
            if len(protocol) == 0 and not unread.poll(0):
                return connection
            connection.close()


def _take_note(closed: asyncio.Future[None]) -> None:
    """Mark the exception of a closed connection as seen, so that asyncio does not log it."""
    if not closed.cancelled():
        closed.exception()


class _Body(httpx.AsyncByteStream):
    """The body of a response, read on demand. If it is closed before its end, the connection is also closed."""

    def __init__(self, response: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._response = response
        self._request = request
        connection = response.connection  # None: the whole body was received
        protocol = None if connection is None else connection.protocol
        self._closed = None if protocol is None else protocol.closed
        if self._closed is not None:
            self._closed.add_done_callback(self._no_more)
        has_end = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        self._end = None if has_end else self._closed

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except _FORESEEN as error:
            _raise(error, self._request)
        if chunk:
            return chunk
        # If the body has no length and lasts until the connection ends, aiohttp accepts it as complete even after a
        # reset.
        end = self._end
        if end is not None and end.done() and not end.cancelled() and end.exception() is not None:
            raise httpx.ReadError("the connection was reset during the response", request=self._request)
        raise StopAsyncIteration

    @override
    async def aclose(self) -> None:
        if self._closed is not None:
            self._closed.remove_done_callback(self._no_more)
        self._response.close()

    def _no_more(self, _: asyncio.Future[None]) -> None:
        """Fail the read when the connection ends. If the peer violates HTTP within a body, aiohttp closes the
        connection without ending the read. Without this method, the reader would then wait forever."""
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection ended within the body"))


def _raise(error: Exception, request: httpx.Request) -> NoReturn:
    """Raise httpx's exception for an error of aiohttp; its cause is the system's error if the connection failed."""
    if isinstance(error, ConnectionLost):
        error = error.reason
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), httpx.ReadError)
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    raise kind(type(error).__name__, request=request) from cause
