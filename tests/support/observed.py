"""A `ServiceObserver` that records its calls, for the tests of all clients."""

from __future__ import annotations

from typing_extensions import override

from farrier.protocols import ServiceObserver


class Observed(ServiceObserver):
    """The requests to one service, each with its operation and result."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.requests: list[tuple[str, str]] = []

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        assert service == self._service
        assert seconds >= 0
        self.requests.append((operation, result))

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]
