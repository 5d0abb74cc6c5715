"""The endpoints for Prometheus and probes, which every process of farrier serves: /metrics, /healthz and /readyz."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from farrier.config.addresses import is_loopback
from farrier.web.server.exposition import Exposition


class Probes:
    """The endpoints of one process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        unready_because: Callable[[], str | None],
        refresh: Callable[[], Awaitable[None]] | None = None,
        metrics_for_strangers: bool = True,
    ) -> None:
        """Create the endpoints. `refresh` is awaited before each exposition of the registry. Without
        `metrics_for_strangers`, only clients on this machine get metrics."""
        self._exposition = Exposition(registry)
        self._unready_because = unready_because
        self._refresh = refresh
        self._for_strangers = metrics_for_strangers

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
        ]

    @property
    def app(self) -> Starlette:
        """An application that serves nothing else."""
        return Starlette(routes=self.routes)

    async def _health(self, _request: Request) -> Response:
        """Respond 200, which shows that the event loop runs."""
        return PlainTextResponse("ok\n")

    async def _ready(self, _request: Request) -> Response:
        reason = self._unready_because()
        if reason is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {reason}\n", status_code=503)

    async def _metrics(self, request: Request) -> Response:
        address = "" if request.client is None else request.client.host
        if not (self._for_strangers or is_loopback(address)):
            return PlainTextResponse("only clients on this machine get metrics\n", status_code=403)
        if self._refresh is not None:
            await self._refresh()
        return await self._exposition.response(request.headers.get("accept", ""))
