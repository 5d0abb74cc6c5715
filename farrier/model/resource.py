"""A resource of any kind as one run sees it, and the requests that wait for its answer.

Kinds subclass `Resource` with the columns of their own table and whatever their load adds. What a run decided is the
same struct with other values; `Answer` is the write that every kind has. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An intent without an answer, checked by the database against the action's parameters."""

    id: int
    action: str
    params: Mapping[str, Any]
    created_at: datetime
    requested_by: str | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the kind's table, and its pending `requests`, oldest first. `version` counts its changes."""

    id: int
    version: int
    name: str
    site: str | None = None
    state: str
    state_entered_at: datetime
    created_at: datetime
    last_error: str | None = None
    requests: tuple[Pending, ...] = ()

    def at(self, state: str, **changes: Any) -> Self:
        """The same in this state, with these of its own columns changed: what a Transition leads to."""
        return msgspec.structs.replace(self, state=state, **changes)

    def but(self, **changes: Any) -> Self:
        """The same with these of its own columns changed: what an Update leads to."""
        return msgspec.structs.replace(self, **changes)


class Answer(msgspec.Struct, frozen=True):
    """Answers a request. One that was answered meanwhile stays as it is."""

    request: int
    accepted: bool
    reason: str = ""
