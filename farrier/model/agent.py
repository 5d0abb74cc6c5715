"""What an agent on a node says and hears: its identity after enrolment, heartbeats, and the tasks it works
on.

Real agents call the SQL functions themselves; these words are for agents that are simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from typing_extensions import override

from farrier.model.health import Health
from farrier.model.node import TaskType


class Enrolled(msgspec.Struct, frozen=True):
    """An agent that is known to the database: the node's id and the key that each call needs."""

    node: int
    key: str

    @override
    def __repr__(self) -> str:
        return f"Enrolled(node={self.node}, key=***)"


class Heartbeat(msgspec.Struct, frozen=True):
    """One sign of life."""

    agent: Enrolled
    health: Health = Health(ok=True)


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an agent has claimed; worthless once its lease token is."""

    id: int
    agent: Enrolled
    type: TaskType
    params: Mapping[str, Any]
    attempt: int
    lease_token: UUID
