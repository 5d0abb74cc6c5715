"""Serves an ASGI application inside a task group of the daemon.

`daemon` calls `serving`, and handles the signals instead of uvicorn. The socket is bound first, so that a port in use
is an error at once, and the port that the system chose for port 0 is known.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from farrier import errors
from farrier.asgi import served
from farrier.web import connections

# Proxies and load balancers usually close a connection after a minute without a request. If this server closed it
# first, it would lose a request that is on its way at this moment, and the proxy would respond with 502.
_IDLE_SECONDS = 75


@asynccontextmanager
async def serving(app: ASGIApp, *, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve the application while the context is open. Yields the base URL. With `tls`, only HTTPS is served. Raises
    ConfigError if the server cannot listen on the address."""
    listener = _bind(host, port)
    secure = {} if tls is None else {"ssl_context_factory": lambda _config, _default: tls}
    settings = {"log_level": "warning", "server_header": False, "timeout_keep_alive": _IDLE_SECONDS} | secure
    async with served(app, listener, name="http", http=connections.limited(), **settings):
        yield _url(listener, "http" if tls is None else "https")


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
