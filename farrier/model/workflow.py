"""Layer `workflow`: the words both kinds of job share (`node_onboardings`, `node_decommissions`).

A workflow is a status times a stage (`farrier.model.stages`). Written by the node handler only. At most one
workflow of a node is live at a time, over both kinds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias


class WorkflowKind(StrEnum):
    ONBOARDING = "onboarding"
    DECOMMISSION = "decommission"


class WorkflowStatus(StrEnum):
    """The same eight for both kinds."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED_RETRYABLE = "failed_retryable"  # tried again by itself at `next_attempt_at`
    FAILED_MANUAL_INTERVENTION = "failed_manual_intervention"  # waits for an operator
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"  # undoing what was done
    RECONCILED = "reconciled"  # ended because the observed state already was the goal


class OnboardingMode(StrEnum):
    DEPLOY = "deploy"  # commission and deploy through MAAS
    ADOPT = "adopt"  # take over a machine that runs already, reading only
    MANUAL = "manual"  # somebody installs it; the agent enrols with a bootstrap token


class DecommissionMode(StrEnum):
    SOFT_RESET = "soft_reset"
    REIMAGE = "reimage"
    FULL_DECOMMISSION = "full_decommission"
    STORAGE_CLEANUP = "storage_cleanup"


Mode: TypeAlias = OnboardingMode | DecommissionMode


SUCCEEDED = frozenset({WorkflowStatus.COMPLETED, WorkflowStatus.RECONCILED})
TERMINAL = SUCCEEDED | {WorkflowStatus.CANCELLED}
LIVE = frozenset(WorkflowStatus) - TERMINAL
FAILED = frozenset({WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.FAILED_MANUAL_INTERVENTION})
AT_WORK = frozenset({WorkflowStatus.RUNNING, WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.COMPENSATING})
"""Statuses of a workflow that continues by itself."""
