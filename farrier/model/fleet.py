"""What a service beside farrier says of nodes and sees of them, in words of our own; for fleets that are
simulated.

Real services write the same SQL themselves. `NodeGlance` is one line of a board, no snapshot to decide on.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from farrier.model.management import Management
from farrier.model.status import NodeStatus
from farrier.model.workflow import WorkflowStatus


class NodeGlance(msgspec.Struct, frozen=True):
    """Where a node stands. `reason` is what its workflow, its BMC or its last run said last; the last three are of its
    live workflow."""

    id: int
    name: str
    status: NodeStatus
    management: Management
    reason: str
    workflow_status: WorkflowStatus | None = None
    stage: str | None = None
    failure: str | None = None

    @property
    def arrived(self) -> bool:
        """In service, and with a usable BMC if it has one at all."""
        usable = self.management in (Management.MANAGEABLE, Management.UNMANAGED)
        return self.status is NodeStatus.ACTIVE and usable


class PastMove(msgspec.Struct, frozen=True):
    """One change of one layer, as history has it."""

    at: datetime
    name: str
    layer: str
    source: str | None
    target: str
    cause: str
