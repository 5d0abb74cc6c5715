"""Layer `status`: the coarse, operator-facing lifecycle of a node (`nodes.status`).

Written by the node handler only. The edges between the values are in `farrier.model.edges`. Nothing finer
belongs here: commissioning, deploying and the like are stages of a workflow.
"""

from __future__ import annotations

from enum import StrEnum


class NodeStatus(StrEnum):
    """In lifecycle order."""

    BOOTSTRAP_ISSUED = "bootstrap_issued"  # a bootstrap token is out, the node has not enrolled yet
    ENROLLING = "enrolling"  # onboarding is pending or under way
    ACTIVE = "active"  # healthy and schedulable
    OFFLINE = "offline"  # expected to exist, but silent
    QUARANTINED = "quarantined"  # exists, blocked from scheduling
    DRAINING = "draining"  # being emptied, unschedulable
    RETIRED = "retired"  # out of scheduling on purpose, identity kept
    REMOVING = "removing"  # uninstall under way
    DELETED = "deleted"  # terminal: row and history stay, the name is free again
