"""The data of an agent on a node: its identity after enrolment, its heartbeats and its tasks.

Real agents call the SQL functions; simulated agents use these structs.
"""

from __future__ import annotations

from uuid import UUID

import msgspec
from typing_extensions import override

from farrier.model.health import Health
from farrier.model.node import TaskType


class Enrolled(msgspec.Struct, frozen=True):
    """An enrolled agent: the ID of its node, and the key that each call of the agent needs."""

    node: int
    key: str

    @override
    def __repr__(self) -> str:
        return f"Enrolled(node={self.node}, key=***)"


class Heartbeat(msgspec.Struct, frozen=True):
    """A heartbeat, with the health that it reports."""

    agent: Enrolled
    health: Health = Health(ok=True)


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an agent has claimed. The agent may work on it while the lease token is valid."""

    id: int
    agent: Enrolled
    type: TaskType
    lease_token: UUID
