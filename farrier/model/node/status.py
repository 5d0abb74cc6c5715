"""Layer `status`: the lifecycle of a node in coarse states, for operators (`nodes.status`).

Only the node handler writes it. The edges between the values are in `farrier.model.node.edges`. Finer states, such as
commissioning and deploying, are stages of a workflow.
"""

from __future__ import annotations

from enum import StrEnum


class NodeStatus(StrEnum):
    """The statuses, in lifecycle order."""

    BOOTSTRAP_ISSUED = "bootstrap_issued"  # a bootstrap token is issued; the node has not enrolled yet
    ENROLLING = "enrolling"  # an onboarding is pending or runs
    ACTIVE = "active"  # healthy and schedulable
    OFFLINE = "offline"  # expected to exist, but silent
    QUARANTINED = "quarantined"  # exists, blocked from scheduling
    DRAINING = "draining"  # its workloads are being removed; unschedulable
    RETIRED = "retired"  # taken out of scheduling on purpose; the identity is kept
    REMOVING = "removing"  # an uninstall runs
    DELETED = "deleted"  # terminal: the row and its history stay, and the name is free
