"""The snapshot of a resource of any kind, and its pending intents.

Kinds subclass `Resource` with the columns of their table and the data that their load adds. A run returns a changed
copy. All kinds have the write `Answer`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A pending intent. The database has checked its parameters."""

    id: int
    action: str
    params: Mapping[str, Any]
    created_at: datetime
    requested_by: str | None = None


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the kind's table, and its pending `requests`, oldest first. `version` counts the changes."""

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
        """A copy in this state with these columns changed, for a Transition."""
        return msgspec.structs.replace(self, state=state, **changes)

    def but(self, **changes: Any) -> Self:
        """A copy with these columns changed, for an Update."""
        return msgspec.structs.replace(self, **changes)


class Answer(msgspec.Struct, frozen=True):
    """Answers an intent. An intent that was answered meanwhile does not change."""

    request: int
    accepted: bool
    reason: str = ""
