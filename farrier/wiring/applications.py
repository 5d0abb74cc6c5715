"""Creates what a server of `farrier serve` serves: the pages and the API, or the API of the agents.

`server` opens an application and serves it. An application has no state: any number of servers may run at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import structlog
from starlette.types import ASGIApp

from farrier import config as settings
from farrier.config import token_file
from farrier.config.processes import is_loopback
from farrier.errors import ConfigError
from farrier.io.calls.agents import PostgresAgentCalls
from farrier.io.connections import refusals
from farrier.io.schema import migrate
from farrier.metrics.sink import RequestSink
from farrier.model.loop.doors import DoorKind
from farrier.protocols import Door
from farrier.web.agents.app import AgentsApp
from farrier.web.server.access import Access
from farrier.web.server.probes import Probes
from farrier.web.server.site import WebApplication
from farrier.web.server.tls import Certificate
from farrier.wiring.storage import Database, backend, brief, connections

_log = structlog.stdlib.get_logger(__name__)

Tasks = Mapping[str, Callable[[], Awaitable[None]]]


class Application(Protocol):
    """What one server serves. `section` is the section of the settings with its address."""

    kind: DoorKind
    section: str
    host: str
    port: int
    certificate: Certificate | None
    parser: str
    """The parser of HTTP that uvicorn uses."""
    app: ASGIApp

    def reload(self) -> None:
        """Read the files of the settings again. Logs a file that cannot be used; the server then keeps what it has."""

    async def require_schema(self, database: Database) -> None:
        """Raise the error with which the server does not start on this schema."""

    def open(self, database: Database, door: Door) -> AbstractAsyncContextManager[Tasks]:
        """Serve requests with this database while the context is open. Returns the tasks that run meanwhile. An
        application of the agents tells `door` when it has answered one."""


def application(kind: DoorKind, config: settings.Config, unready_because: Callable[[], str | None]) -> Application:
    """Return the application of a door of this kind. Raises ConfigError."""
    return (_Pages if kind is DoorKind.PAGES else _Agents)(config, unready_because)


class _Pages:
    """The pages and the API."""

    kind = DoorKind.PAGES
    section = "http"
    parser = "h11"

    def __init__(self, config: settings.Config, unready_because: Callable[[], str | None]) -> None:
        http = config.http
        self._config = config
        self.host, self.port = http.host, http.port
        self.certificate = _certificate(self.section, http.tls_cert, http.tls_key)
        self._access = Access(loopback=is_loopback(http.host))
        self._use_tokens()
        _warn_without_token(http)
        self._sink = RequestSink(_results(config.vault))
        names = (http.host, *http.names)
        self._site = WebApplication(
            self._sink.registry, unready_because=unready_because, names=names, access=self._access
        )
        self.app: ASGIApp = self._site.app

    def reload(self) -> None:
        try:
            self._use_tokens()
        except ConfigError as refused:
            _log.error("tokens.refused", error=str(refused))
        _reload(self.section, self.certificate)

    async def require_schema(self, database: Database) -> None:
        async with refusals.borrowed(database.pool) as conn:
            status = await migrate.check(conn)
        status.require_current()

    @asynccontextmanager
    async def open(self, database: Database, door: Door) -> AsyncIterator[Tasks]:  # noqa: ARG002 - it answers no agent
        async with backend(self._config, database, observer=self._sink) as opened:
            self._site.open(opened)
            yield {}

    def _use_tokens(self) -> None:
        """Read the tokens file. On ConfigError, the previous tokens stay in use."""
        tokens = token_file.load(self._config.http.tokens_file)
        self._access.use(tokens)
        _log.info("tokens.used", clients=[token.name for token in tokens])


class _Agents:
    """The API of the agents."""

    kind = DoorKind.AGENTS
    section = "agents"
    # Thousands of agents keep their connections, and send a few short requests a minute.
    parser = "httptools"

    def __init__(self, config: settings.Config, unready_because: Callable[[], str | None]) -> None:
        agents = config.agents
        self._database = config.database
        self.host, self.port = agents.host, agents.port
        self.certificate = _certificate(self.section, agents.tls_cert, agents.tls_key)
        registry = RequestSink({}).registry
        probes = Probes(registry, unready_because=unready_because, metrics_for_strangers=False)
        self._agents = AgentsApp(probes.app)
        self.app: ASGIApp = self._agents.app

    def reload(self) -> None:
        _reload(self.section, self.certificate)

    async def require_schema(self, database: Database) -> None:
        """Accept any schema: a server of the agents may start before a migration, and is not ready until then."""

    @asynccontextmanager
    async def open(self, database: Database, door: Door) -> AsyncIterator[Tasks]:
        # Its own connections, so that a flood of requests does not delay the pulse of the door.
        config = self._database
        async with connections(config, database.dsn, size=config.pool_max, timeouts=brief(config)) as pool:
            batches = self._agents.open(PostgresAgentCalls(pool), door)
            yield {"batches": batches.run}


def _results(vault: settings.VaultConfig) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the possible results of the requests of a server of pages, which reads secrets, by service."""
    if not vault.address:
        return {}
    from farrier.wiring.results import of_vault  # which loads the HTTP client

    return {"vault": of_vault()}


def _certificate(section: str, cert: str, key: str) -> Certificate | None:
    if not cert:
        return None
    found = Certificate(cert, key, section=section)
    _warn_of(section, found)
    return found


def _reload(section: str, certificate: Certificate | None) -> None:
    if certificate is None:
        return
    try:
        certificate.reload()
    except ConfigError as refused:
        _log.error("certificate.refused", error=str(refused))
    else:
        _warn_of(section, certificate)


def _warn_of(section: str, certificate: Certificate) -> None:
    """Log why clients will refuse the certificate. It is served nevertheless: an operator can still open the pages."""
    if (fault := certificate.fault()) is not None:
        _log.warning("certificate.faulty", reason=fault, hint=f"renew {section}.tls_cert, then send SIGHUP")


def _warn_without_token(http: settings.HttpConfig) -> None:
    """Log once, before a request arrives, that farrier will refuse clients because it has no token."""
    if not (is_loopback(http.host) or http.tokens_file or http.bearer_token):
        _log.warning(
            "http.no_token",
            host=http.host,
            reason="other machines can reach this server, so each request needs a token, except for metrics and probes",
            hint="run farrier token create, and set http.tokens_file; or set http.host to 127.0.0.1",
        )
