"""Returns the metrics in the format that the client prefers: OpenMetrics with exemplars, or Prometheus' text."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import Response

_OPENMETRICS, _TEXT = "application/openmetrics-text", "text/plain"
_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)")


def response(registry: CollectorRegistry, accept: str) -> Response:
    """Return the metrics in the format for a client with this Accept header."""
    if _prefers_openmetrics(accept):
        text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return Response(text, media_type=openmetrics.CONTENT_TYPE_LATEST)
    return Response(exposition.generate_latest(registry), media_type=exposition.CONTENT_TYPE_PLAIN_0_0_4)


def _prefers_openmetrics(accept: str) -> bool:
    """Return whether the client prefers OpenMetrics. A format that the header omits is not preferred. If both are
    preferred equally, the result is true, because only OpenMetrics has exemplars."""
    named = {_OPENMETRICS: 0.0, _TEXT: 0.0}
    for each in accept.lower().split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        given = [found[1] for found in map(_QUALITY.fullmatch, parameters) if found]
        if media in named:
            named[media] = max(named[media], float(given[0]) if given else 1.0)
    return 0 < named[_OPENMETRICS] >= named[_TEXT]
