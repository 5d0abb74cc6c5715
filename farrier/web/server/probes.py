"""The endpoints for Prometheus and probes, which every process of farrier serves: /metrics, /healthz and /readyz.

The metrics have the format that the client prefers: OpenMetrics with exemplars, or Prometheus' text. Any client may
read them, and the event loop does nothing else while it generates their text. So farrier generates texts during at most
a tenth of the time. All requests that wait for the next text get the same text.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import anyio
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from farrier.clock import MonotonicClock
from farrier.config.processes import is_loopback
from farrier.protocols import Clock

_OPENMETRICS, _TEXT = "application/openmetrics-text", "text/plain"
_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)")
# The pause after a text is this multiple of the time that its generation took.
_PAUSES = 9


class Exposition:
    """The texts of one registry."""

    def __init__(self, registry: CollectorRegistry, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock or MonotonicClock()
        self._one_at_a_time = anyio.Lock()
        self._next_at = float("-inf")
        # For each format: when the generation of the last text began, and the text.
        self._last: dict[str, tuple[float, bytes]] = {}

    async def response(self, accept: str) -> Response:
        """Return the metrics for a client with this Accept header, in a text that is generated after this call."""
        asked_at = self._clock.monotonic()
        media = openmetrics.CONTENT_TYPE_LATEST if _prefers_openmetrics(accept) else exposition.CONTENT_TYPE_PLAIN_0_0_4
        async with self._one_at_a_time:
            began_at, text = self._last.get(media, (float("-inf"), b""))
            if began_at < asked_at:
                await anyio.sleep(max(0.0, self._next_at - self._clock.monotonic()))
                text = self._generated(media)
        return Response(text, media_type=media)

    def _generated(self, media: str) -> bytes:
        began_at = self._clock.monotonic()
        if media == openmetrics.CONTENT_TYPE_LATEST:
            text: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
        else:
            text = exposition.generate_latest(self._registry)
        ended_at = self._clock.monotonic()
        self._next_at = ended_at + _PAUSES * (ended_at - began_at)
        self._last[media] = began_at, text
        return text


def _prefers_openmetrics(accept: str) -> bool:
    """Return whether the client prefers OpenMetrics, also if it prefers both alike: only OpenMetrics has exemplars."""
    named = {_OPENMETRICS: 0.0, _TEXT: 0.0}
    for each in accept.lower().split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        given = [found[1] for found in map(_QUALITY.fullmatch, parameters) if found]
        if media in named:
            named[media] = max(named[media], float(given[0]) if given else 1.0)
    return 0 < named[_OPENMETRICS] >= named[_TEXT]


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
