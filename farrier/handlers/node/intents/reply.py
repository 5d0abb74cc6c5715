"""The input of a response to an intent, and the possible replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

import msgspec

from farrier.handlers.node.changes import NodeServices, Policy
from farrier.model.advice.recommended import Recommended, alternatives
from farrier.model.intents.params import Params
from farrier.model.loop.outcome import Made
from farrier.model.maas.reading import MaasStatus
from farrier.model.node.snapshot import Intent, Node
from farrier.model.node.writes import Write


class Request(msgspec.Struct, frozen=True):
    """An intent that fits the node's states, and its decoded parameters."""

    node: Node
    intent: Intent
    params: Params
    now: datetime
    config: Policy

    def in_maas_as(self, *, deployed: bool) -> bool:
        """Return whether a fresh reading shows that the machine is deployed or, if `deployed` is False, not deployed. A
        stale reading proves neither, and nor does an unknown status."""
        seen = self.node.maas
        if seen is None or not seen.fresh(self.now, self.config.observation_ttl) or seen.state is MaasStatus.UNKNOWN:
            return False
        return (seen.state is MaasStatus.DEPLOYED) is deployed


class Accept(Made, frozen=True, kw_only=True):
    """The action begins or ends in this commit. `to` is the node afterwards; None if the node does not change."""

    reason: str
    to: Node | None = None
    writes: tuple[Write, ...] = ()


class KeepPending(Made, frozen=True, kw_only=True):
    """Keep the intent pending until a step returns the answer. `to` is the node with the action recorded, or None if
    the action is already recorded or cannot begin yet. Later intents wait, because intents are answered in order."""

    reason: str
    to: Node | None = None


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Refuse the intent. `instead` are intents that the node would accept."""

    reason: str
    instead: tuple[Recommended, ...] = ()

    @property
    def text(self) -> str:
        """The reason, with the alternatives."""
        return f"{self.reason}; submit {alternatives(self.instead)}" if self.instead else self.reason


class ReadFirst(msgspec.Struct, frozen=True, kw_only=True):
    """The answer depends on what the step `name` reads with `act`, which returns it. Later intents wait."""

    name: str
    act: Callable[[NodeServices], Awaitable[FinalReply]]


FinalReply: TypeAlias = Accept | Reject
Reply: TypeAlias = FinalReply | KeepPending | ReadFirst
Respond: TypeAlias = Callable[[Request], Reply]
