"""The marks of an incomplete cleaning on a node: `not_scrubbed`, and the cause `cleanup_validation_failed`.

The first prevents the node from entering service until a scrub is finished. The second is a quarantine that the node
keeps in every status until a validation succeeds or an operator releases it with a reason. It leads from `offline` to
`quarantined`, and `moves.with_fields` does not replace it by another cause. Only stages, failures and responses use
this module, and no other code sets or clears the marks.
"""

from __future__ import annotations

from msgspec.structs import replace

from farrier.handlers.node.moves import with_fields
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.node import Node, Quarantine, TaskStatus, TaskType

NOT_SCRUBBED = "it is not scrubbed, because its cleaning was skipped; decommission it with a complete scrub first"
"""Why a node with this mark may not enter service."""

_CLEANING = (TaskType.CLEANUP_STORAGE, TaskType.SCRUB_GPU)


def cleared(node: Node) -> Node:
    """The node without its quarantine, whatever the cause. For a successful validation, a release with a reason, and
    the end of the node."""
    return replace(node, quarantine=None)


def failed(node: Node, failure: FailureClass, detail: str) -> Node:
    """The node after a stage failed with this class."""
    if failure is not FailureClass.VALIDATION_FAILED:
        return node
    return with_fields(node, quarantine=Quarantine(QuarantineCause.CLEANUP_VALIDATION_FAILED, detail))


def given_up(node: Node) -> Node:
    """The node as its workflow is cancelled: marked if its agents began a cleaning or validation that did not
    succeed."""
    if _is_unfinished(node, *_CLEANING):
        node = with_fields(node, not_scrubbed=True)
    if _is_unfinished(node, TaskType.VALIDATE_CLEAN) and not node.failed_validation:
        node = failed(node, FailureClass.VALIDATION_FAILED, "its validation was cancelled")
    return node


def _is_unfinished(node: Node, *types: TaskType) -> bool:
    begun = (node.task(type_) for type_ in types)
    return any(task is not None and task.status is not TaskStatus.SUCCEEDED for task in begun)
