"""The marks of a node whose cleaning is incomplete: `not_scrubbed`, and the quarantine cause
`cleanup_validation_failed`.

`not_scrubbed` prevents the node from entering service until a scrub is finished. `cleanup_validation_failed` is the
cause of a quarantine. The node keeps this quarantine in every status, until a validation succeeds or an operator
releases the node with a reason. An offline node with this quarantine enters `quarantined` again, and
`moves.with_fields` does not replace the cause. The marks are set and cleared only by stages, `failing` and responses,
and only through this module.
"""

from __future__ import annotations

from msgspec.structs import replace

from farrier.handlers.node.moves import with_fields
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.node import Node, Quarantine, TaskStatus, TaskType

NOT_SCRUBBED = "the node is not scrubbed, because its cleaning was skipped; decommission it with a complete scrub first"
"""Why a node with this mark may not enter service."""

_CLEANING = (TaskType.CLEANUP_STORAGE, TaskType.SCRUB_GPU)


def cleared(node: Node) -> Node:
    """Return the node without its quarantine, whatever its cause. This is for a successful validation, a release, and
    the end of the node."""
    return replace(node, quarantine=None)


def failed(node: Node, failure: FailureClass, detail: str) -> Node:
    """Return the node after the failure of a stage. If a validation failed, the node is marked."""
    if failure is not FailureClass.VALIDATION_FAILED:
        return node
    return with_fields(node, quarantine=Quarantine(QuarantineCause.CLEANUP_VALIDATION_FAILED, detail))


def given_up(node: Node) -> Node:
    """Return the node after its workflow was cancelled. If a task of a cleaning or validation was issued and did not
    succeed, the node is marked."""
    if _is_unfinished(node, *_CLEANING):
        node = with_fields(node, not_scrubbed=True)
    if _is_unfinished(node, TaskType.VALIDATE_CLEAN) and not node.failed_validation:
        node = failed(node, FailureClass.VALIDATION_FAILED, "its validation was cancelled")
    return node


def _is_unfinished(node: Node, *types: TaskType) -> bool:
    begun = (node.task(type_) for type_ in types)
    return any(task is not None and task.status is not TaskStatus.SUCCEEDED for task in begun)
