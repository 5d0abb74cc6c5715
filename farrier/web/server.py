"""Serves an ASGI application inside a task group of a process.

`daemon` and `server` call `serving`, and handle the signals instead of uvicorn. The socket is bound first, so that a
port in use is an error at once, and the port that the system chose for port 0 is known.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import ASGIApp

from farrier import errors
from farrier.asgi import served

# Proxies and load balancers usually close a connection after a minute without a request. If this server closed it
# first, it would lose a request that is on its way at this moment, and the proxy would respond with 502.
_IDLE_SECONDS = 75


MOST_REQUESTS: Final = 512
"""Number of connections of one server. To a further one, the server responds 503. It leaves half of the 1024 files that
a process may open by default to the database."""


@asynccontextmanager
async def serving(
    app: ASGIApp, *, host: str, port: int, tls: ssl.SSLContext | None = None, section: str = "http"
) -> AsyncIterator[str]:
    """Serve the application while the context is open. Yields the base URL. With `tls`, only HTTPS is served. Raises
    ConfigError, which names this section of the settings, if the server cannot listen on the address."""
    listener = bind(host, port, section=section)
    async with serving_on(app, listener, tls=tls) as url:
        yield url


@asynccontextmanager
async def serving_on(app: ASGIApp, listener: socket.socket, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve the application on this socket, which the context closes at the end. Yields the base URL."""
    settings: Mapping[str, object] = {
        "log_level": "warning",
        "server_header": False,
        "timeout_keep_alive": _IDLE_SECONDS,
        "limit_concurrency": MOST_REQUESTS,
        **({} if tls is None else {"ssl_context_factory": lambda _config, _default: tls}),
    }
    async with served(app, listener, name="http", **settings):
        yield url_of(listener, "http" if tls is None else "https")


def bind(host: str, port: int, *, section: str) -> socket.socket:
    """Return a socket that listens on the address, which this section of the settings sets. Raises ConfigError."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as failure:
        raise errors.ConfigError(
            f"cannot listen on {host}:{port}: {failure.strerror}; set another {section}.host or {section}.port"
        ) from failure


def url_of(listener: socket.socket, scheme: str) -> str:
    """Return the base URL of a server on this socket."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
