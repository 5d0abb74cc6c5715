"""Views of intents, for operators and other programs: one intent, a filter of intents, and a page of them.

`protocols.Queries` returns these views; the command line and the web show them. Intents of nodes and intents of other
kinds are numbered separately.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from farrier.model.views.nodes import RequestView


class IntentView(RequestView, frozen=True, kw_only=True):
    """An intent and its resource. `name` is the name of the resource, or the ID of the resource if it no longer has a
    name. Only intents of nodes have an `api_version`."""

    kind: str
    resource: int
    name: str
    idempotency_key: str | None
    api_version: int | None = None


class WantedIntents(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of intents. Each field lists the accepted values; an empty field accepts all values. `resource` is the
    name or ID of one resource."""

    resource: str | None = None
    statuses: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    requested_by: tuple[str, ...] = ()

    @property
    def is_pending_only(self) -> bool:
        """Whether the filter accepts only intents without an answer. The database has an index for these intents."""
        return self.statuses == ("pending",)


class IntentPage(msgspec.Struct, frozen=True):
    """Some intents, and the ID before which the next page begins; None at the end. The query of a page reads a limited
    number of rows, so a page may contain few or no intents if the filter accepts few. Ages are computed from `now`."""

    now: datetime
    rows: tuple[IntentView, ...]
    following: int | None
