"""What a node's run may ask the commit to write beside the node itself: data, applied in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from farrier.model.node import TaskStatus, TaskType


class Verdict(StrEnum):
    """How an intent was answered."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"


class AnswerIntent(msgspec.Struct, frozen=True):
    """Answers a pending intent. `accepted` means begun or done in this very commit."""

    intent: int
    verdict: Verdict
    reason: str = ""


class CreateTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task for the node's agent, belonging to the live workflow as this commit leaves it. With `ended` it is
    inserted in that status, with `result`, and no agent ever sees it."""

    type: TaskType
    attempt: int = 1
    failures: int = 0
    params: dict[str, Any] = {}
    ended: TaskStatus | None = None
    result: str | None = None


class EndTask(msgspec.Struct, frozen=True):
    """Ends a task that no agent finished: `expired` or `cancelled`. A task that ended meanwhile stays as it is."""

    task: int
    status: TaskStatus
    result: str


class IssueBootstrap(msgspec.Struct, frozen=True):
    """Makes the bootstrap token with this digest (SHA-256, hexadecimal) good for the node for this long from now, and
    its earlier unused ones worthless. Written again, its time begins anew; one that was used stays used."""

    digest: str
    ttl: timedelta


class RevokeBootstrap(msgspec.Struct, frozen=True):
    """Makes the node's unused bootstrap token worthless."""


class ForgetAgent(msgspec.Struct, frozen=True):
    """Makes the agent's key worthless; it has to enrol again."""


class SetDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Changes what the node was registered with to these values of intent `set`, with a row of history for each that
    differs. Another MAAS id is one whose machine was not made by us, and is read anew."""

    params: Mapping[str, Any]
    cause: str
    reason: str


class LeaveService(msgspec.Struct, frozen=True):
    """Silence or MAAS takes the node out of service in this commit; where its site's brake holds, the run is decided
    anew."""


class UseNetworks(msgspec.Struct, frozen=True, kw_only=True):
    """The node, not deployed, uses these segments and partitions, by name, and no others: an address of each segment,
    and each of its ports as a member of each partition. What can be had now is taken; what is not named, or is being
    deleted, is given back. With none, all is. Written again, it takes nothing twice."""

    segments: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


Write: TypeAlias = (
    AnswerIntent
    | CreateTask
    | EndTask
    | IssueBootstrap
    | RevokeBootstrap
    | ForgetAgent
    | SetDetails
    | LeaveService
    | UseNetworks
)
