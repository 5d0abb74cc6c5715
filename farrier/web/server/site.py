"""The web application: its routes, and responses for errors.

The server creates the application before the database is available, so the metrics and health endpoints respond from
the start. `open` adds the database; until then, endpoints that need the database respond with 503. Errors of the API
are problem details; other errors are pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import Mount, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farrier.errors import CredentialError, DatabaseUnreachable, RefusedByModel, UndecodableState
from farrier.model.intents.actions import API_MAX, API_MIN
from farrier.web.api import table
from farrier.web.pages import table as pages
from farrier.web.pages.runs import Runs
from farrier.web.server.access import Access, Guard
from farrier.web.server.backend import Backend
from farrier.web.server.hosts import KnownHosts
from farrier.web.server.probes import Probes
from farrier.web.server.refusals import left, no_token, refused, undecodable, unforeseen, unreachable, wrong_path

# On these pages, the browser runs only scripts from this server. No page may embed these pages in a frame.
_POLICY = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # A client that declares no version learns here which versions there are.
    (b"farrier-api-min-version", str(API_MIN).encode()),
    (b"farrier-api-max-version", str(API_MAX).encode()),
)
# The header is valid for a year, as browsers recommend. It is sent only over TLS, because browsers ignore it otherwise.
_ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


class WebApplication:
    """The web application of one server."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        unready_because: Callable[[], str | None],
        names: Collection[str] = (),
        access: Access | None = None,
    ) -> None:
        """Create the application. `names` are the host names of this server, in addition to localhost and any address.
        `access` has the accepted tokens; without `access`, no token is accepted."""
        self._site = Starlette(
            routes=[
                *Probes(registry, unready_because=unready_because).routes,
                Mount("/api/v1", Router(table.ROUTES, redirect_slashes=False)),
                *pages.ROUTES,
            ],
            middleware=[Middleware(Guard)],
            exception_handlers={
                HTTPException: wrong_path,
                RefusedByModel: refused,
                DatabaseUnreachable: unreachable,
                CredentialError: no_token,
                UndecodableState: undecodable,
                ClientDisconnect: left,
                Exception: unforeseen,
            },
        )
        self._site.router.redirect_slashes = False  # clients of the API do not follow redirects
        self._site.state.access = access or Access()
        self._site.state.runs = Runs()
        # These are outside of Starlette, because Starlette makes the response to an unexpected error outside of its
        # middleware.
        self.app: ASGIApp = _Headers(KnownHosts(self._site, names))

    def open(self, backend: Backend) -> None:
        """Add the database, which is now available."""
        self._site.state.backend = backend


class _Headers:
    """Adds farrier's headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = (*_HEADERS, _ONLY_TLS) if scope.get("scheme") == "https" else _HEADERS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)
