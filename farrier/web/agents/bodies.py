"""The bodies of requests and responses of the agents' API. Unknown fields are ignored, because agents are upgraded
independently of farrier."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from farrier.model.machine.health import SshSeed
from farrier.model.node.conditions import Effect
from farrier.model.node.evidence import Reported

Digest = Annotated[
    str,
    Meta(
        min_length=64,
        max_length=64,
        pattern=r"\A[0-9a-f]*\Z",
        description="A SHA-256 digest in lower-case hexadecimal digits.",
    ),
]
Version = Annotated[str, Meta(max_length=64, description="The version of the agent.")]
BootId = Annotated[UUID, Meta(description="The boot of the machine, from /proc/sys/kernel/random/boot_id.")]
Seconds = Annotated[float, Meta(ge=1, le=86400)]


class MachineIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies the machine. farrier compares it with the node's BMC."""

    serial: Annotated[str, Meta(max_length=200)] | None = None
    uuid: Annotated[str, Meta(max_length=200)] | None = None
    macs: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=1000)] = ()


class EnrollBody(msgspec.Struct, frozen=True, kw_only=True):
    """An enrolment."""

    token: Annotated[str, Meta(max_length=200, description="The bootstrap token of the node.")]
    key_digest: Annotated[Digest, Meta(description="The digest of the key that the agent made for itself.")]
    identity: MachineIdentity = MachineIdentity()
    facts: dict[str, Any] = {}
    version: Version | None = None
    boot_id: BootId | None = None


class EnrollAnswer(msgspec.Struct, frozen=True):
    """An accepted enrolment."""

    node: Annotated[str, Meta(description="The name of the node.")]
    interval: Annotated[int, Meta(description="The agent sends its first heartbeat after this number of seconds.")]


class ConditionBody(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of the machine that stands now. `id` and `target` together identify it."""

    id: Annotated[str, Meta(min_length=1, max_length=128, description="What it is, such as `gpu_lost`.")]
    target: Annotated[str, Meta(max_length=128, description="The part, such as a serial number.")] = ""
    message: Annotated[str, Meta(max_length=500)] = ""
    effect: Annotated[
        Effect, Meta(description="With the effect quarantine, the node leaves service. A note is only shown.")
    ] = Effect.NOTE


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat."""

    boot_id: BootId
    uptime: Annotated[float, Meta(ge=0, description="Seconds since the machine booted.")] | None = None
    version: Version | None = None
    ok: Annotated[bool, Meta(description="If false, the node leaves service, also without a condition.")] = True
    ssh_seed: Annotated[SshSeed, Meta(description="The result of cloud-init's SSH seed.")] = SshSeed.UNKNOWN
    conditions: Annotated[
        tuple[ConditionBody, ...], Meta(max_length=100, description="All conditions that stand now.")
    ] = ()
    facts_digest: Annotated[Digest, Meta(description="The digest of the agent's present facts.")] | None = None
    clock: Annotated[float, Meta(description="The time of the machine, in seconds since 1970.")] | None = None


class Want(StrEnum):
    """What the agent must do after a heartbeat."""

    FACTS = "facts"  # send the facts
    CLAIM = "claim"  # claim a task


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """An accepted heartbeat."""

    interval: Annotated[int, Meta(description="The agent sends its next heartbeat after this number of seconds.")]
    wants: Annotated[tuple[Want, ...], Meta(description="`facts`: send the facts; `claim`: claim a task of the node.")]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True):
    """A claim."""

    idempotency_key: Annotated[UUID, Meta(description="A random key. A repeated claim has the same key.")]
    types: Annotated[
        tuple[Annotated[str, Meta(max_length=64)], ...],
        Meta(max_length=64, description="The types of tasks that the agent can do."),
    ]
    lease: Annotated[Seconds, Meta(description="Length of the lease in seconds.")] = 60


class TaskAnswer(msgspec.Struct, frozen=True):
    """A claimed task."""

    id: int
    type: str
    params: dict[str, Any]
    attempt: Annotated[int, Meta(description="Which issue of the task this is, from 1.")]
    lease_token: UUID
    lease_until: datetime


class ClaimAnswer(msgspec.Struct, frozen=True):
    """The claimed task, or null if the node has no such task."""

    task: TaskAnswer | None


class RenewBody(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal of a lease."""

    lease_token: UUID
    lease: Annotated[Seconds, Meta(description="Length of the lease from now, in seconds.")] = 60


class RenewAnswer(msgspec.Struct, frozen=True):
    """The new end of a lease."""

    lease_until: datetime


class FinishBody(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a task."""

    lease_token: UUID
    succeeded: bool
    result: Annotated[Any, Meta(description="Any JSON about the result.")] = None
    evidence: Annotated[Reported | None, Meta(description="What was done to each device, and seen afterwards.")] = None


class FactsBody(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the machine."""

    digest: Digest
    facts: dict[str, Any]


class Succeeded(msgspec.Struct, frozen=True):
    """The call succeeded."""


class TaskPath(msgspec.Struct, frozen=True):
    """A task in the path."""

    id: Annotated[int, Meta(ge=1, le=2**63 - 1, description="The ID of the task.")]
