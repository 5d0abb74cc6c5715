"""The management layer while a machine that runs already is taken over, reading only (model §3)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from farrier.config import NodeConfig
from farrier.handlers.node.moves import Decision, become, change
from farrier.model.bmc import BmcFailure
from farrier.model.management import Management as M
from farrier.model.node import Node
from farrier.model.outcome import Wait


def tend(node: Node, now: datetime, config: NodeConfig) -> Decision:
    """No request of this release leads here; a newer one's replica finishes it, or its deadline does."""
    if now - node.management_entered_at <= config.transient_deadline:
        return Wait(reason="adopting is finished by a replica that can adopt", look_again=config.transient_deadline)
    bmc = msgspec.structs.replace(
        node.bmc, last_error="adopting took longer than its deadline", failure=BmcFailure.TIMEOUT
    )
    return become(
        node,
        change(node, management=M.ADOPT_FAILED, bmc=bmc),
        reason="adopting took longer than its deadline",
        cause="timer: deadline of adopting",
    )
