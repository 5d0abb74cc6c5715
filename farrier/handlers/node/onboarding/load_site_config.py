"""Stage `load_site_config`: the node's site is configured, and its region is one that we can work with."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import Done, StageResult
from farrier.model.node import Node


def load_site_config(node: Node, now: datetime, config: Policy) -> StageResult:
    """Sites have no configuration of their own in this release; the label is all there is to find."""
    where = f"site {node.site}" if node.site is not None else "no site label"
    return Done(reason=f"{where}; sites have no configuration of their own, the general one applies")
