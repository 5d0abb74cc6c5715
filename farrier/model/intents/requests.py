"""Intents of clients, the answers to intents, and registrations, as data.

The command line and the web create these requests, and `protocols.Requests` sends them. The database checks all
requests, so this module checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from typing_extensions import override

from farrier.model.intents.actions import API_MAX
from farrier.model.node.details import Details
from farrier.model.node.layers import NODE


class IntentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An intent for one resource, which is given by its name or ID. With `key`, a repeated request creates no second
    intent. Only intents of nodes have an `api_version`: farrier's own clients declare the newest that they know."""

    resource: str
    action: str
    kind: str = NODE
    params: Mapping[str, Any] = {}
    key: str | None = None
    requested_by: str | None = None
    api_version: int = API_MAX


class IntentStatus(StrEnum):
    """The answer to an intent."""

    PENDING = "pending"
    ACCEPTED = "accepted"  # begun or done
    REJECTED = "rejected"
    SUPERSEDED = "superseded"  # a newer intent replaced it


class IntentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an intent: `pending` until the intent is `accepted`, `rejected` or `superseded`."""

    intent: int
    kind: str
    resource: int
    status: str
    reason: str | None
    answered_at: datetime | None


class Registration(Details, frozen=True, kw_only=True):
    """A node to register. If `bootstrap_token` is set, the node's agent must enrol within `bootstrap_ttl`. History
    names `requested_by`, or else the client of the connection."""

    name: str
    bmc_address: str | None = None
    bmc_credential: str | None = None
    bootstrap_token: str | None = None
    bootstrap_ttl: timedelta = timedelta(hours=72)
    api_version: int = API_MAX
    requested_by: str | None = None

    @override
    def __repr__(self) -> str:
        return f"Registration(name={self.name!r}, …)"


class Registered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that was just registered. The bootstrap token is shown only here."""

    id: int
    name: str
    bootstrap_token: str | None = None

    @override
    def __repr__(self) -> str:
        return f"Registered(id={self.id}, name={self.name!r}, …)"
