"""Stage `cleanup_secrets`: nothing that the node's agent or installer knows opens anything any more, and its addresses
and memberships are others' to have.

Only a full decommission gives those back here: the machine is released and off, or its agent has uninstalled.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.decommission.own import back_to_removing
from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import Done, StageResult
from farrier.model.node import Node
from farrier.model.writes import ForgetAgent, RevokeBootstrap, UseNetworks


def cleanup_secrets(node: Node, now: datetime, policy: Policy) -> StageResult:
    writes = (RevokeBootstrap(), ForgetAgent(), UseNetworks())
    return back_to_removing(node) or Done(reason="its secrets are worthless", writes=writes)
