"""Logs failed requests to outside services, in addition to their metrics.

Wraps the observer of the loops' service clients. Logs a service, an operation and a class of failure, all from finite
sets, and never the content of a request or response; the loop's context names the node.
"""

from __future__ import annotations

import structlog
from typing_extensions import override

from farrier.protocols import ServiceObserver

_log = structlog.stdlib.get_logger(__name__)

# farrier cancels requests itself, and their runs record the reason.
_NO_FAILURE = frozenset({"ok", "cancelled"})


class LoggedRequests(ServiceObserver):
    """Reports every request to `inner`, and logs failed ones."""

    def __init__(self, inner: ServiceObserver) -> None:
        self._inner = inner

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        self._inner.requested(service, operation, result, seconds)
        if result not in _NO_FAILURE:
            _log.warning("request.failed", service=service, operation=operation, result=result)
