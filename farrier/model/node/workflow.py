"""Layer `workflow`: the kinds, statuses and modes of onboardings and decommissions (`node_onboardings`,
`node_decommissions`).

The state of a workflow is a status and a stage (`farrier.model.node.stages`). Only the node handler writes it. A node
has at most one live workflow of either kind.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias


class WorkflowKind(StrEnum):
    ONBOARDING = "onboarding"
    DECOMMISSION = "decommission"


class WorkflowStatus(StrEnum):
    """The statuses of both kinds of workflow."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED_RETRYABLE = "failed_retryable"  # retried by itself at `next_attempt_at`
    FAILED_MANUAL_INTERVENTION = "failed_manual_intervention"  # waits for an operator
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"  # the undo of its work runs
    RECONCILED = "reconciled"  # ended because the observed state already was the target state


class OnboardingMode(StrEnum):
    DEPLOY = "deploy"  # commission and deploy through MAAS
    ADOPT = "adopt"  # adopt a running machine, with reads only
    MANUAL = "manual"  # an operator installs it; the agent enrols with a bootstrap token


class DecommissionMode(StrEnum):
    SOFT_RESET = "soft_reset"
    REIMAGE = "reimage"
    FULL_DECOMMISSION = "full_decommission"
    STORAGE_CLEANUP = "storage_cleanup"


class CleaningBy(StrEnum):
    """Who cleans a machine when its node is decommissioned."""

    REGION = "region"  # MAAS erases the disks at the release, and farrier checks them outside the machine's system
    AGENT = "agent"  # the agent, in the machine's own system
    WORKER = "worker"  # a worker, by the tasks of the agent


Mode: TypeAlias = OnboardingMode | DecommissionMode


SUCCEEDED = frozenset({WorkflowStatus.COMPLETED, WorkflowStatus.RECONCILED})
TERMINAL = SUCCEEDED | {WorkflowStatus.CANCELLED}
LIVE = frozenset(WorkflowStatus) - TERMINAL
FAILED = frozenset({WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.FAILED_MANUAL_INTERVENTION})
AT_WORK = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.COMPENSATING})
"""Statuses of a workflow that continues by itself."""
RETRIED = FAILED & AT_WORK
"""Statuses of a workflow whose stage failed and is retried without an operator."""
