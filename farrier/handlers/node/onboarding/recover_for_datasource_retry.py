"""Stage `recover_for_datasource_retry`: a machine whose deployment failed can be deployed again."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import StageResult, Waiting
from farrier.model.node import Node


def recover_for_datasource_retry(node: Node, now: datetime, policy: Policy) -> StageResult:
    return Waiting(reason="this stage is run by a newer release", timed=False)
