"""The calls that a server for agents makes for them: heartbeats with their verdicts, leases of tasks, and results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from typing_extensions import override

from farrier.model.node.evidence import Reported


class BeatVerdict(StrEnum):
    """What became of a heartbeat."""

    TAKEN = "taken"
    LOCKED = "locked"  # another transaction has the agent's rows; the heartbeat can be tried alone
    UNKNOWN = "unknown"  # no node has an agent with this key
    REPLACED = "replaced"  # a later boot with the same key has replaced this one
    HELD = "held"  # the node is held after a restore
    REFUSED = "refused"  # the report is malformed


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat. `key` is the digest of the agent's key in hexadecimal, `facts` the digest of the facts that the
    agent has, and `clock` the time of the machine in seconds since 1970."""

    key: str
    boot: UUID
    version: str | None = None
    health: Mapping[str, Any] = {}
    facts: str | None = None
    clock: float | None = None


class BeatAnswer(msgspec.Struct, frozen=True):
    """The answer to a heartbeat. `wait` is the number of seconds until the next one. `facts` and `claim` say whether
    the agent must send its facts and claim a task. `reason` is set for the verdict `refused`."""

    verdict: BeatVerdict
    reason: str | None
    wait: int
    facts: bool
    claim: bool


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """An enrolment. `key_digest` is the SHA-256 digest of the agent's key in hexadecimal."""

    token: str
    key_digest: str
    facts: Mapping[str, Any]
    version: str | None = None
    boot_id: UUID | None = None

    @override
    def __repr__(self) -> str:
        return f"Enrolment(token=***, facts={self.facts})"


class Enrolling(msgspec.Struct, frozen=True):
    """The answer to an enrolment: the node's name, or why the machine is not the node's."""

    node: str | None
    refused: str | None


class LeasedTask(msgspec.Struct, frozen=True):
    """A task that an agent has claimed. The agent may work on it until `lease_until`, and extends this time."""

    id: int
    type: str
    params: Mapping[str, Any]
    attempt: int
    lease_token: UUID
    lease_until: datetime


class TaskEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a claimed task. `evidence` is what proves the result."""

    lease_token: UUID
    succeeded: bool
    result: Any = None
    evidence: Reported | None = None
