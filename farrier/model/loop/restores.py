"""Holds of resources after the restore of a backup.

A restored database has the states of an earlier time, so farrier holds every resource: it reads the outside services,
and changes nothing, until an operator lifts the hold. Pure.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from farrier.model.intents.params import REASON_MAX
from farrier.model.loop.outcome import Record


class HoldChoice(StrEnum):
    """How an operator lifts the hold of a resource whose state differs from the outside services."""

    RESUME = "resume"  # farrier continues from the state in the backup
    ADOPT = "adopt"  # the observed state becomes the node's state
    END = "end"  # the workflow ends, and nothing outside changes


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The hold of one resource since the restore. `power` is the power in the backup of a manageable node. `choice` is
    set while farrier carries out the choice of an operator."""

    since: datetime
    power: str | None = None
    choice: HoldChoice | None = None


class HoldView(msgspec.Struct, frozen=True, kw_only=True):
    """A held resource. `difference` is why a lift needs a choice: what differs from the outside services, or that
    nothing was compared yet. It is None if there is no difference."""

    kind: str
    id: int
    name: str
    site: str | None
    since: datetime
    choice: HoldChoice | None
    difference: str | None


class Lift(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which holds to lift: of the resources `names` of the kind; without names, of all held resources of the kind and
    site. `then` is the choice for resources with a difference or a live workflow; it needs names."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_MAX)]
    kind: str | None = None
    names: tuple[str, ...] | None = None
    site: str | None = None
    then: HoldChoice | None = None
    requested_by: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None


class Lifted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a lift for one resource. `why` is why the resource is still held, or None."""

    kind: str
    name: str
    why: str | None


LIFT = "look at the differences with farrier db holds, and lift the hold with farrier db lift"
"""Advice about a held resource."""


def since(restored_at: datetime) -> str:
    """Return that a resource has been held since the restore."""
    return f"held since the database was restored ({restored_at:%Y-%m-%d %H:%M:%S} UTC)"


def until_lifted(restored_at: datetime) -> str:
    """Return why a held resource answers an intent later."""
    return f"{since(restored_at)}; the intent waits until an operator lifts the hold"


def reason(restored_at: datetime, outcome: Record | None) -> str:
    """Return what a held resource waits for, with the difference that its last run found."""
    waits = f"{since(restored_at)}; farrier changes nothing until an operator lifts the hold"
    if outcome is None:
        return f"{waits}. The resource was not compared with the outside services yet"
    found = outcome.reason.removeprefix(held("")) if outcome.outcome in ("wait", "error") else "no difference"
    return f"{waits}. Found: {found}"


def held(difference: str) -> str:
    """Return the reason of a held resource that differs from the outside services."""
    return f"held after a restore: {difference}"
