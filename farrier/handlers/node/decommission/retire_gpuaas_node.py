"""Stage `retire_gpuaas_node`: checks that the node is retired; it has been retired since its drain."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Failed, Policy, StageResult
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node


def retire_gpuaas_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    if node.status is N.RETIRED:
        return Done(reason="retired")
    if node.status is N.REMOVING:  # a new decommission continues a removal whose decommission was lost
        return Done(reason="the node is already removing", skipped="the node was already removing")
    return Failed(failure=FailureClass.INTERNAL, detail=f"expected a retired node; this one is {node.status}")
