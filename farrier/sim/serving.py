"""Serves a simulated service in this process by an httpx transport, or over a socket of 127.0.0.1.

The transport and the socket show faults as a client sees them: if a response is dropped, the connection is closed, and
a hanging request ends by the client's timeout.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from farrier.asgi import served
from farrier.sim.faults import ConnectionDropped, RequestHangs


class AppTransport(httpx.AsyncBaseTransport):
    """A transport that sends requests to `app` without a socket. If a request hangs, the transport raises
    `httpx.ReadTimeout` at once; if the client has no read timeout, the request never ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._inner = httpx.ASGITransport(app=app)

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        limit = request.extensions.get("timeout", {}).get("read")
        try:
            return await self._inner.handle_async_request(request)
        except ConnectionDropped:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.") from None
        except RequestHangs:
            if limit is None:
                await anyio.sleep_forever()
            raise httpx.ReadTimeout("the simulated service hangs", request=request) from None


@asynccontextmanager
async def open_app(app: ASGIApp, *, name: str) -> AsyncIterator[str]:
    """Serve `app` on 127.0.0.1. Yields `http://127.0.0.1:PORT`."""
    listener = socket.create_server(("127.0.0.1", 0))
    async with served(_closing(app), listener, name=name, log_level="critical", http="h11"):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _closing(app: ASGIApp) -> ASGIApp:
    """Wrap `app` so that a dropped response closes the connection before the end of the body."""

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except ConnectionDropped:
            start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
            await send(start)
        except RequestHangs:
            while (await receive())["type"] != "http.disconnect":
                pass

    return closing
