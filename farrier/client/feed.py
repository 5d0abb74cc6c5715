"""The change feed: parses server-sent events of the API into changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from farrier.client import calls
from farrier.client.calls import Filter
from farrier.model.views.responses import Change

_PATH = "/history/stream"
# The server sends an event or a mark at least every 15 s. A longer silence means that the connection is lost.
_SILENCE_SECONDS = 45.0
PAUSE_SECONDS = 2.0
"""The pause before a lost stream is opened again."""


class Feed:
    """Parses the lines of a stream. Stores the position in the feed, so that the same `Feed` can continue with a new
    stream after a loss."""

    def __init__(self, filters: Mapping[str, Filter], after: str | None) -> None:
        self.query = calls.query_of(filters)
        self.cursor = after
        self._data = b""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `httpx.Client.stream` for the next request."""
        last = {} if self.cursor is None else {"Last-Event-ID": self.cursor}
        headers = {"Accept": "text/event-stream", **last}
        return {"method": "GET", "url": _PATH, "params": self.query, "headers": headers, "timeout": _SILENCE_SECONDS}

    def begin(self) -> None:
        """Drop the unfinished event of a lost stream."""
        self._data = b""

    def line(self, line: str) -> Change | None:
        """Take the next line. If this line completes a change, return the change; otherwise return None."""
        if not line:
            data, self._data = self._data, b""
            return msgspec.json.decode(data, type=Change) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data += value.encode()
        elif name == "id":
            self.cursor = value
        return None
