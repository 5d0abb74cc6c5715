"""Limits the connections of the HTTP server.

A client needs no token to open connections, and the controller shares its process with the server. Each connection
takes a file descriptor, and the requests of many connections delay the rounds of the controller. So if a new connection
exceeds the limit, the server closes the connection that has waited longest. A connection waits until its whole request
has arrived, and again after the response.
"""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST: Final = 512
"""Number of connections. It leaves half of the 1024 files that a process may open by default to the controller."""


def limited(most: int = MOST) -> type[H11Protocol]:
    """Return the class of the connections of one server."""
    # The connection that has waited longest is first.
    waiting: dict[H11Protocol, None] = {}

    class Connection(H11Protocol):
        """A connection that counts towards the limit."""

        @override
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            waiting[self] = None
            if len(self.connections) > most:
                longest = next(iter(waiting))
                del waiting[longest]
                longest.transport.abort()  # close() would wait for a client that does not read its response

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            waiting.pop(self, None)
            super().connection_lost(exc)

        @override
        def handle_events(self) -> None:
            super().handle_events()
            cycle: RequestResponseCycle | None = getattr(self, "cycle", None)  # None before the first request
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                waiting.pop(self, None)

        @override
        def on_response_complete(self) -> None:
            # This comes first, because the next request may have arrived already.
            if self in self.connections:
                waiting[self] = None
            super().on_response_complete()

    return Connection
