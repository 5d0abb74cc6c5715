"""Stage `cleanup_secrets`: invalidates the secrets of the node's agent and installer, and releases the node's addresses
and memberships.

Only a full decommission has this stage. The stage begins after the machine was released and switched off, or after the
node's agent has uninstalled itself. The stage is done when the tables contain no rows of these secrets, addresses and
memberships, not even rows that were written while the stage ran.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.handlers.node.changes import Done, Policy, StageResult, Waiting
from farrier.handlers.node.decommission.progress import back_to_removing
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import ForgetAgent, RevokeBootstrap, UseNetworks

_AT_ONCE = timedelta(0)


def cleanup_secrets(node: Node, now: datetime, policy: Policy) -> StageResult:
    return back_to_removing(node) or _removed(node)


def _removed(node: Node) -> Done | Waiting:
    if node.secrets_left == ():
        return Done(reason="the database has no bootstrap token, agent key, address or membership of the node")
    return Waiting(
        reason=f"farrier removes {', '.join(node.secrets_left or ('its secrets',))}",
        requeue_after=_AT_ONCE,
        writes=(RevokeBootstrap(), ForgetAgent(), UseNetworks()),
    )
