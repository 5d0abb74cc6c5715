"""Requests to the outside that failed, in the log beside the metrics.

Around the observer of the loops' service clients. Writes a service, an operation and a class of failure, all from
finite sets, and never what was sent or answered; the loop's context says which node it was for.
"""

from __future__ import annotations

import structlog
from typing_extensions import override

from farrier.protocols import ServiceObserver

_log = structlog.stdlib.get_logger(__name__)

# Cancelled requests were given up by us: their runs say why.
_NO_FAILURE = frozenset({"ok", "cancelled"})


class LoggedRequests(ServiceObserver):
    """Tells `inner` of every request, and the log of those that failed."""

    def __init__(self, inner: ServiceObserver) -> None:
        self._inner = inner

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        self._inner.requested(service, operation, result, seconds)
        if result not in _NO_FAILURE:
            _log.warning("request.failed", service=service, operation=operation, result=result)
