"""Power of manageable nodes: read regularly, switched when an operator asks (model §3)."""

from __future__ import annotations

from datetime import datetime

from farrier.config import NodeConfig
from farrier.handlers.node.moves import Decision
from farrier.model.node import Node


def tend(_node: Node, _now: datetime, _config: NodeConfig) -> Decision | None:
    """The next thing to do for the node's power; None when it rests."""
    return None


def recover(_node: Node, _now: datetime, _config: NodeConfig) -> Decision | None:
    """What a run whose end nobody saw may have done to the BMC; None when there is nothing to account for."""
    return None
