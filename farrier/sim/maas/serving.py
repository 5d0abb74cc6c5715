"""Two ways to reach a region: in this process, by an httpx transport, and over a socket of 127.0.0.1.

Used by tests, benchmarks and the demo. Both show faults as a client sees them: a dropped answer is a closed
connection, a hanging request ends by the client's own timeout. With `speed` the region's clock follows the
real one, so many times as fast; without, it moves only by `Region.advance`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import anyio
import httpx
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from farrier.sim.maas.app import ConnectionDropped, RegionApp, RequestHangs
from farrier.sim.maas.region import Region

# The simulated clock moves in such steps of real time.
_TICK_SECONDS = 0.02
_STOP_SECONDS = 2


class RegionTransport(httpx.AsyncBaseTransport):
    """Requests to `region` without a socket. A hang ends at once as the read timeout that the client has set."""

    def __init__(self, region: Region) -> None:
        self._inner = httpx.ASGITransport(app=RegionApp(region))

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
            raise httpx.ReadTimeout("the simulated region hangs", request=request) from None


@asynccontextmanager
async def open_region(region: Region, *, speed: float | None = None, port: int = 0) -> AsyncIterator[str]:
    """Serve `region` on 127.0.0.1; yields the base URL, `http://127.0.0.1:PORT/MAAS`."""
    listener = socket.create_server(("127.0.0.1", port))
    settings = uvicorn.Config(
        _closing(RegionApp(region)),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(settings)
    ended = anyio.Event()
    # Cancelled, uvicorn would leave its sockets open: it ends when it is told to, also when we are being cancelled.
    until_told, clock = anyio.CancelScope(shield=True), anyio.CancelScope()

    async def serve() -> None:
        try:
            with until_told:
                await server.serve([listener])
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, name="maas simulation")
        if speed is not None:
            tasks.start_soon(_follow_real_time, region, speed, clock, name="maas simulation clock")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/MAAS"
        finally:
            clock.cancel()
            server.should_exit = True
            with anyio.move_on_after(2 * _STOP_SECONDS, shield=True):
                await ended.wait()
            until_told.cancel()
            listener.close()


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs us."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _closing(app: RegionApp) -> ASGIApp:
    """`app`, with a dropped answer as a connection that ends before the body does."""

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


async def _follow_real_time(region: Region, speed: float, scope: anyio.CancelScope) -> None:
    with scope:
        last = time.monotonic()
        while True:
            await anyio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            region.advance(timedelta(seconds=(now - last) * speed))
            last = now
