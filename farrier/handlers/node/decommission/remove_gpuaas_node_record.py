"""Stage `remove_gpuaas_node_record`: begins the removal and revokes the agent's key."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Policy, StageResult, StageStep, with_fields
from farrier.handlers.node.decommission import by_bmc
from farrier.handlers.node.decommission.progress import pointless
from farrier.handlers.node.workflow import tasks
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node, TaskType
from farrier.model.node.writes import ForgetAgent, Write


def remove_gpuaas_node_record(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Enter `removing`, and create the agent's task in the same commit. If no agent can uninstall anything, the task is
    inserted with status `cancelled`. If MAAS could not switch the machine off, farrier then does this by BMC."""
    if node.status is N.RETIRED:
        return StageStep(
            to=with_fields(node, status=N.REMOVING),
            reason="the removal of the node begins",
            writes=_uninstall(node, now),
        )
    result = tasks.work(node, now, policy, TaskType.UNINSTALL)
    if not isinstance(result, Done):
        return result
    return by_bmc.switched_off(node, now, replace(result, writes=(*result.writes, ForgetAgent())))


def _uninstall(node: Node, now: datetime) -> tuple[Write, ...]:
    if pointless(node) is not None:
        return (tasks.first(node, TaskType.UNINSTALL),)
    return tasks.reissue(node, TaskType.UNINSTALL, now)
