"""Short notes about a node for lists: problems that may need a decision of an operator. Pure.

A note names no stage: lists show the coarse state of a node, and its page shows its workflow.
"""

from __future__ import annotations

from collections.abc import Iterator

from farrier.model.node import conditions
from farrier.model.node.layers import WorkflowStatus
from farrier.model.views.nodes import NodeView


def notes(node: NodeView) -> Iterator[str]:
    """Yield the notes about the node, the most important first."""
    workflow = node.workflow
    if node.restored_at is not None:
        yield "held after a restore"
    if node.paused is not None:
        yield f"paused: {node.paused}"
    if node.held:
        yield "held by the brake"
    if node.quarantine_cause is not None:
        yield f"{node.quarantine_cause}: {node.quarantine_reason}"
    yield from (f"note, {note.text}" for note in conditions.shown_notes(node.conditions))
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION:
        yield f"waits for an operator: {workflow.failure_class or workflow.kind}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_RETRYABLE:
        yield f"retries: {workflow.failure_class or workflow.kind}"
    if node.bmc_failure is not None:
        yield f"BMC: {node.bmc_failure}"
    if node.power_failure is not None:
        yield f"power unreadable: {node.power_failure}"
