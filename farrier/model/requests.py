"""What people and other programs ask for, and what they are answered: intents and registrations as data.

Made by the command line and the web, sent by `protocols.Requests`. The database judges them; nothing is checked
here that it checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from typing_extensions import override

from farrier.model.actions import API_MAX
from farrier.model.details import Details


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One intent. `key` makes it one request however often it is sent."""

    node: str
    action: str
    params: Mapping[str, Any] = {}
    key: str | None = None
    requested_by: str | None = None
    api_version: int = API_MAX


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How an intent stands: `pending` until it is `accepted`, `rejected` or `superseded`."""

    intent: int
    node: int
    status: str
    reason: str | None
    answered_at: datetime | None


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One intent for a resource of a registered kind, which is given by its name or its id."""

    kind: str
    resource: str
    action: str
    params: Mapping[str, Any] = {}
    key: str | None = None
    requested_by: str | None = None


class ResourceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How an intent for a resource stands."""

    intent: int
    kind: str
    resource: int
    status: str
    reason: str | None
    answered_at: datetime | None


class Registration(Details, frozen=True, kw_only=True):
    """A node to be. With `bootstrap_token` it waits for its agent, who has `bootstrap_ttl` to spend it."""

    name: str
    bmc_address: str | None = None
    bmc_credential: str | None = None
    bootstrap_token: str | None = None
    bootstrap_ttl: timedelta = timedelta(hours=72)
    api_version: int = API_MAX

    @override
    def __repr__(self) -> str:
        return f"Registration(name={self.name!r}, …)"
