"""Stage `commission_node`: the machine is being commissioned, or was."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import StageResult, Waiting
from farrier.model.node import Node


def commission_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    return Waiting(reason="this stage is run by a newer release", timed=False)
