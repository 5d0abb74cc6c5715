"""Serves ASGI applications with uvicorn inside a task group. The daemon and the simulated services use this module."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from farrier import errors

# Requests in progress may end within this time, but a client that reads slowly does not delay the stop further.
_GRACE_SECONDS = 2
# The header Date has whole seconds.
_DATE_SECONDS = 1


class _Server(uvicorn.Server):
    """A server that does not handle signals, and wakes only for requests, the date and its end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = anyio.Event()

    def end(self) -> None:
        """End as soon as the requests in progress have ended."""
        self.should_exit = True
        self._ending.set()

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @override
    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with anyio.move_on_after(_DATE_SECONDS):
                await self._ending.wait()


@asynccontextmanager
async def served(app: ASGIApp, listener: socket.socket, *, name: str, **settings: Any) -> AsyncIterator[None]:
    """Serve the application on this socket while the context is open, with these further settings of uvicorn. The
    context closes the socket. The parser of HTTP does not depend on what is installed: it is h11, unless a setting
    names another."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            interface="asgi3",
            timeout_graceful_shutdown=_GRACE_SECONDS,
            **{"http": "h11", **settings},
        )
    )
    ended = anyio.Event()
    # A cancelled uvicorn would leave its sockets open. So its flag stops it, also during a cancellation.
    until_stopped = anyio.CancelScope(shield=True)

    async def serve() -> None:
        try:
            with until_stopped:
                await server.serve([listener])
        finally:
            ended.set()
        if not server.should_exit:
            raise errors.InternalError("the HTTP server stopped unexpectedly")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, name=name)
        try:
            yield
        finally:
            server.end()
            with anyio.move_on_after(2 * _GRACE_SECONDS, shield=True):
                await ended.wait()
            until_stopped.cancel()
            listener.close()
