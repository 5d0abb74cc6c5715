"""The snapshot of a resource of any kind, and its pending intents.

Each kind subclasses `Resource`, and adds fields for the columns of its table and for the data that its load adds. A run
returns a changed copy of the snapshot. `Answer` is a write that runs of every kind can return. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A pending intent. The database has already checked its parameters."""

    id: int
    action: str
    params: Mapping[str, Any]
    created_at: datetime
    requested_by: str | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the kind's table, and its pending `requests`, the oldest first. `version` counts the changes of the
    row."""

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
        """Return a copy in this state with these columns changed, for a Transition."""
        return msgspec.structs.replace(self, state=state, **changes)

    def but(self, **changes: Any) -> Self:
        """Return a copy with these columns changed, for an Update."""
        return msgspec.structs.replace(self, **changes)


class Answer(msgspec.Struct, frozen=True):
    """Answers an intent. If the intent was answered meanwhile, the write changes nothing."""

    request: int
    accepted: bool
    reason: str = ""
