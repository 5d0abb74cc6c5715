"""Serves an ASGI application inside a task group of the daemon.

`daemon` calls `serving`, and handles the signals instead of uvicorn. The socket is bound first, so that a port in use
is an error at once, and the port that the system chose for port 0 is known.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from farrier import errors

# Requests in progress may end within this time, but a client that reads slowly does not delay the stop further.
_GRACE_SECONDS = 2


class _Server(uvicorn.Server):
    """A server that leaves SIGTERM and SIGINT to the daemon."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, *, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve the application while the context is open. Yields the base URL. With `tls`, only HTTPS is served. Raises
    ConfigError if the server cannot listen on the address."""
    listener = _bind(host, port)
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    server = _Server(settings)
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
        tasks.start_soon(serve, name="http")
        try:
            yield _url(listener, "http" if tls is None else "https")
        finally:
            server.should_exit = True
            with anyio.move_on_after(2 * _GRACE_SECONDS, shield=True):
                await ended.wait()
            until_stopped.cancel()
            listener.close()


def _bind(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as failure:
        raise errors.ConfigError(
            f"cannot listen on {host}:{port}: {failure.strerror}; set another http.host or http.port"
        ) from failure


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
