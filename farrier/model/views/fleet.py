"""The view of nodes for simulated fleets.

Real external services use SQL instead. A `NodeGlance` is one line of a list; it is not a snapshot for decisions.
"""

from __future__ import annotations

import msgspec

from farrier.model.node.layers import Management, NodeStatus, WorkflowStatus


class NodeGlance(msgspec.Struct, frozen=True):
    """The state of a node. `reason` is the last reason of the node's workflow, BMC or run. The last three fields belong
    to the node's live workflow."""

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
        """Whether the node is in service and its BMC, if it has one, is usable."""
        usable = self.management in (Management.MANAGEABLE, Management.UNMANAGED)
        return self.status is NodeStatus.ACTIVE and usable
