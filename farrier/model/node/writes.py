"""The data that a node's run writes in addition to the node itself. The commit applies this data in the same
transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from farrier.model.intents.requests import IntentStatus
from farrier.model.node.snapshot import TaskStatus, TaskType


class AnswerIntent(msgspec.Struct, frozen=True):
    """Answers a pending intent. Status `accepted` means that the action begins or is completed in this commit."""

    intent: int
    status: IntentStatus
    reason: str = ""


class CreateTask(msgspec.Struct, frozen=True, kw_only=True):
    """Creates a task for the node's agent, in the workflow that is live after this commit. With `ended`, the task is
    inserted in this status and with `result`, and no agent ever receives it."""

    type: TaskType
    attempt: int = 1
    failures: int = 0
    ended: TaskStatus | None = None
    result: str | None = None


class EndTask(msgspec.Struct, frozen=True):
    """Ends a task that no agent has finished, as `expired` or `cancelled`. If the task has ended meanwhile, the write
    changes nothing."""

    task: int
    status: TaskStatus
    result: str


class IssueBootstrap(msgspec.Struct, frozen=True):
    """Makes the bootstrap token with this digest (SHA-256, hexadecimal) valid for the node, for `ttl` from now, and
    invalidates its earlier unused tokens. Repeating the write restarts `ttl`; a used token stays used."""

    digest: str
    ttl: timedelta


class RevokeBootstrap(msgspec.Struct, frozen=True):
    """Makes the node's unused bootstrap token invalid."""


class ForgetAgent(msgspec.Struct, frozen=True):
    """Makes the agent's key invalid, so that the agent has to enrol again."""


class SetDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Changes the node's registration data to these values of intent `set`, with a history row for each change. If the
    MAAS ID changes, the machine counts as not created by farrier, and is read again."""

    params: Mapping[str, Any]
    cause: str
    reason: str


class LeaveService(msgspec.Struct, frozen=True):
    """Records that the node leaves service in this commit for this cause: the source of a condition, or
    `conditions.SILENCE`. If the site's brake for this cause holds the
    node, nothing is committed, and the loop runs the node again."""

    source: str


class UseNetworks(msgspec.Struct, frozen=True, kw_only=True):
    """Sets the segments and partitions that an undeployed node uses; both are given by name. The node gets an address
    of each segment, and each of its ports becomes a member of each partition. The commit allocates the available
    addresses and memberships. If a segment or partition is not named or is being deleted, the commit releases the
    node's addresses or memberships in it. If none is named, the commit releases all of them. Idempotent."""

    segments: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


class LiftHold(msgspec.Struct, frozen=True):
    """Lifts the hold of the node after a restore."""


SectionWrite: TypeAlias = (
    AnswerIntent
    | CreateTask
    | EndTask
    | IssueBootstrap
    | RevokeBootstrap
    | ForgetAgent
    | SetDetails
    | UseNetworks
    | LiftHold
)
Write: TypeAlias = SectionWrite | LeaveService
