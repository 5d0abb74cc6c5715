"""Serves an ASGI application inside a task group of a process.

`daemon` and `server` call `serving`, and handle the signals instead of uvicorn. The socket is bound first, so that a
port in use is an error at once, and the port that the system chose for port 0 is known.
"""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from farrier import errors
from farrier.asgi import served

# Proxies and load balancers usually close a connection after a minute without a request. If this server closed it
# first, it would lose a request that is on its way at this moment, and the proxy would respond with 502.
_IDLE_SECONDS = 75


# Number of connections of a server whose clients are Prometheus and probes. To a further one, the server responds 503.
_FEW = 512
# Files that a server opens beside the connections of its clients: those of the database, of the log, of certificates.
_OTHER_FILES = 128
# If the system sets no limit. Each connection takes a few kilobytes.
_MOST_FILES = 1 << 18


@asynccontextmanager
async def serving(
    app: ASGIApp, *, host: str, port: int, tls: ssl.SSLContext | None = None, section: str = "http"
) -> AsyncIterator[str]:
    """Serve the application to a few clients while the context is open. Yields the base URL. With `tls`, only HTTPS is
    served. Raises ConfigError, which names this section of the settings, if the server cannot listen on the address."""
    listener = bind(host, port, section=section)
    async with serving_on(app, listener, tls=tls, most=_FEW) as url:
        yield url


@asynccontextmanager
async def serving_on(
    app: ASGIApp,
    listener: socket.socket,
    *,
    tls: ssl.SSLContext | None = None,
    parser: str = "h11",
    most: int | None = None,
) -> AsyncIterator[str]:
    """Serve the application on this socket, which the context closes at the end. Yields the base URL. At most `most`
    connections are served; None means as many as the process may open files. `parser` is uvicorn's parser of HTTP."""
    settings: Mapping[str, object] = {
        "log_level": "warning",
        "server_header": False,
        "timeout_keep_alive": _IDLE_SECONDS,
        "limit_concurrency": _files() if most is None else most,
        "http": parser,
        **({} if tls is None else {"ssl_context_factory": lambda _config, _default: tls}),
    }
    async with served(app, listener, name="http", **settings):
        yield url_of(listener, "http" if tls is None else "https")


def _files() -> int:
    """Let the process open as many files as the system permits. Returns how many of them may be connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return _MOST_FILES
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(hard - _OTHER_FILES, _OTHER_FILES)


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
