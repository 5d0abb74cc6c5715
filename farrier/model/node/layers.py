"""The layers of a node, and the states of each. Only the node's handler writes them.

`edges` has the transitions between the states. The state of a workflow is a status and a stage (`stages`); finer states
of the lifecycle, such as commissioning and deploying, are stages. A node has at most one live workflow of either kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias


class Layer(StrEnum):
    """The parts of a node that have separate states and clocks."""

    STATUS = "status"
    MANAGEMENT = "management"
    ONBOARDING = "onboarding"
    DECOMMISSION = "decommission"


NODE = "node"
"""The name of the kind for nodes. It is also the value of the metric label `kind` for the status of nodes."""

LAYER_KIND: Mapping[Layer, str] = {
    Layer.STATUS: NODE,
    Layer.MANAGEMENT: "management",
    Layer.ONBOARDING: "onboarding",
    Layer.DECOMMISSION: "decommission",
}
"""The value of the metric label `kind` for each layer."""


class NodeStatus(StrEnum):
    """The lifecycle of a node in coarse states, for operators (`nodes.status`), in order."""

    BOOTSTRAP_ISSUED = "bootstrap_issued"  # a bootstrap token is issued; the node has not enrolled yet
    ENROLLING = "enrolling"  # an onboarding is pending or runs
    ACTIVE = "active"  # healthy and schedulable
    OFFLINE = "offline"  # expected to exist, but silent
    QUARANTINED = "quarantined"  # exists, blocked from scheduling
    DRAINING = "draining"  # its workloads are being removed; unschedulable
    RETIRED = "retired"  # taken out of scheduling on purpose; the identity is kept
    REMOVING = "removing"  # an uninstall runs
    DELETED = "deleted"  # terminal: the row and its history stay, and the name is free


class Management(StrEnum):
    """Whether farrier may use the node's BMC (`nodes.management`), in the order in which a node passes through the
    states. Power and provisioning require `manageable`. The layer does not show whether the node is schedulable."""

    UNMANAGED = "unmanaged"  # no BMC detail was set; a valid final state, not an error
    ENROLL = "enroll"  # a BMC detail is set, but nothing is verified
    VERIFYING = "verifying"  # a probe runs
    MANAGEABLE = "manageable"  # verified: power and management interface are valid, and the power state was read
    ADOPTING = "adopting"  # farrier adopts a running machine, with reads only
    ADOPT_FAILED = "adopt_failed"  # the adoption failed; the node's last error has the reason
    ERROR = "error"  # all BMC details were removed


TRANSIENT = frozenset({Management.VERIFYING, Management.ADOPTING})
"""States that end by themselves: by an outcome, a deadline, a cancel or the recovery after a crash. If one of these
states does not accept an intent, the intent waits until the state ends, instead of being rejected."""


class WorkflowKind(StrEnum):
    ONBOARDING = "onboarding"
    DECOMMISSION = "decommission"


class WorkflowStatus(StrEnum):
    """The statuses of both kinds of workflow (`node_onboardings`, `node_decommissions`)."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED_RETRYABLE = "failed_retryable"  # retried by itself at `next_attempt_at`
    FAILED_MANUAL_INTERVENTION = "failed_manual_intervention"  # waits for an operator
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"  # the undo of its work runs
    RECONCILED = "reconciled"  # ended because the observed state already was the target state


SUCCEEDED = frozenset({WorkflowStatus.COMPLETED, WorkflowStatus.RECONCILED})
TERMINAL = SUCCEEDED | {WorkflowStatus.CANCELLED}
LIVE = frozenset(WorkflowStatus) - TERMINAL
FAILED = frozenset({WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.FAILED_MANUAL_INTERVENTION})
AT_WORK = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.COMPENSATING})
"""Statuses of a workflow that continues by itself."""
RETRIED = FAILED & AT_WORK
"""Statuses of a workflow whose stage failed and is retried without an operator."""


class OnboardingMode(StrEnum):
    DEPLOY = "deploy"  # commission and deploy through MAAS
    ADOPT = "adopt"  # adopt a running machine, with reads only
    MANUAL = "manual"  # an operator installs it; the agent enrols with a bootstrap token


class DecommissionMode(StrEnum):
    SOFT_RESET = "soft_reset"
    REIMAGE = "reimage"
    FULL_DECOMMISSION = "full_decommission"
    STORAGE_CLEANUP = "storage_cleanup"


Mode: TypeAlias = OnboardingMode | DecommissionMode


class CleaningBy(StrEnum):
    """Who cleans a machine when its node is decommissioned."""

    REGION = "region"  # MAAS erases the disks at the release, and farrier checks them outside the machine's system
    AGENT = "agent"  # the agent, in the machine's own system
    WORKER = "worker"  # a worker, by the tasks of the agent


STATES: Mapping[Layer, type[StrEnum]] = {
    Layer.STATUS: NodeStatus,
    Layer.MANAGEMENT: Management,
    Layer.ONBOARDING: WorkflowStatus,
    Layer.DECOMMISSION: WorkflowStatus,
}
