"""Stage `cleanup_secrets`: nothing that the node's agent or installer knows opens anything any more."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.decommission.own import back_to_removing
from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import Done, StageResult
from farrier.model.node import Node
from farrier.model.writes import ForgetAgent, RevokeBootstrap


def cleanup_secrets(node: Node, now: datetime, policy: Policy) -> StageResult:
    return back_to_removing(node) or Done(reason="its secrets are worthless", writes=(RevokeBootstrap(), ForgetAgent()))
