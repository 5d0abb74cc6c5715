"""Stage `render_cloud_init`: the user data can be made."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import StageResult, Waiting
from farrier.model.node import Node


def render_cloud_init(node: Node, now: datetime, policy: Policy) -> StageResult:
    return Waiting(reason="this stage is run by a newer release", timed=False)
