"""Stage `create_or_find_in_maas`: the node has its machine in MAAS, and nobody else has."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import Done, Failed, StageResult
from farrier.model.failures import FailureClass
from farrier.model.node import Node


def create_or_find_in_maas(node: Node, now: datetime, config: Policy) -> StageResult:
    """Only finds: an adoption creates nothing. A node without a MAAS id has nothing to be found by."""
    if node.maas_id is None:
        return Done(reason="the node is not in MAAS", skipped="the node has no MAAS id")
    return Failed(
        failure=FailureClass.INVALID_CONFIG,
        detail=f"site {node.site or '(none)'} has no MAAS configured, and the node has MAAS id {node.maas_id}",
    )
