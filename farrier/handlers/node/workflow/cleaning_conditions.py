"""The conditions about the cleaning of a node: `not_scrubbed`, `validation_failed` and `unproven`.

The first two keep the node out of service: `not_scrubbed` stands until a scrub is finished, and `validation_failed`
until a validation succeeds; an operator can release both by their names, with a reason. `unproven` is a note about a
stage without evidence, until this stage is proven. The conditions are set and ended only by stages, `failing` and
responses, and only through this module.
"""

from __future__ import annotations

from msgspec.structs import replace

from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import Action
from farrier.model.maas.reading import BEING_RELEASED
from farrier.model.node import conditions
from farrier.model.node.conditions import Effect, Source
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Decommission, Node, TaskStatus, TaskType
from farrier.model.node.stages import CLEANING, DecommissionStage

REFUSAL = "the node is not scrubbed, because its cleaning was skipped"
"""Why a node with this condition may not enter service."""
CLEANINGS = (
    Recommended(Action.DECOMMISSION, {"mode": "soft_reset"}, when="to clean it"),
    Recommended(Action.RELEASE, {"key": f"{Source.CLEANING}/{conditions.NOT_SCRUBBED}"}, ("reason",), "if it is clean"),
)

_CLEANING = (TaskType.CLEANUP_STORAGE, TaskType.SCRUB_GPU)


def is_marked(node: Node) -> bool:
    """Return whether the node's cleaning is incomplete."""
    return node.not_scrubbed or node.failed_validation


def scrubbed(node: Node) -> Node:
    """Return the node after a finished scrub."""
    return _without(node, conditions.NOT_SCRUBBED)


def validated(node: Node) -> Node:
    """Return the node after a successful validation."""
    return _without(node, conditions.VALIDATION_FAILED)


def installed(node: Node) -> Node:
    """Return the node after farrier installed its machine anew. That a scrub was skipped is then only noted."""
    if not node.not_scrubbed:
        return node
    message = "the machine was installed again without a scrub"
    note = conditions.stated(Source.CLEANING, conditions.NOT_SCRUBBED, message, Effect.NOTE)
    return replace(node, conditions=conditions.added(node.conditions, note))


def unproven(node: Node, stage: str, why: str) -> Node:
    """Return the node after a cleaning stage ended without a proof."""
    note = replace(conditions.stated(Source.CLEANING, conditions.UNPROVEN, why, Effect.NOTE), target=stage)
    return replace(node, conditions=conditions.added(node.conditions, note))


def proven(node: Node, stage: str) -> Node:
    """Return the node after a cleaning stage was proven."""
    key = (Source.CLEANING, conditions.UNPROVEN, stage)
    return replace(node, conditions=tuple(each for each in node.conditions if each.key != key))


def failed(node: Node, failure: FailureClass, detail: str) -> Node:
    """Return the node after the failure of a stage. If a validation failed, the node is marked."""
    if failure is not FailureClass.VALIDATION_FAILED:
        return node
    return _with(node, conditions.VALIDATION_FAILED, detail)


def skipped(node: Node, type_: TaskType, why: str) -> Node:
    """Return the node after a task of this type was skipped. Only tasks that clean or validate mark the node."""
    if type_ in _CLEANING:
        return _with(node, conditions.NOT_SCRUBBED, why)
    if type_ is TaskType.VALIDATE_CLEAN and not node.failed_validation:
        return _with(node, conditions.VALIDATION_FAILED, why)
    return node


def given_up(node: Node) -> Node:
    """Return the node after its workflow was cancelled. If a task of a cleaning or validation was issued and did not
    succeed, or if the region had begun to clean the machine, the node is marked."""
    if _region_began(node):
        node = _with(node, conditions.NOT_SCRUBBED, "the cleaning by the region was cancelled")
    for task in node.tasks:
        if task.status is not TaskStatus.SUCCEEDED:
            node = skipped(node, task.type, f"task {task.type} was cancelled with its workflow")
    return node


def _region_began(node: Node) -> bool:
    """Return whether the region had begun to erase or to check the machine in the live workflow."""
    workflow = node.workflow
    if not isinstance(workflow, Decommission) or workflow.options.cleaned_by is not CleaningBy.REGION:
        return False
    if workflow.stage is not DecommissionStage.RELEASE_MAAS_NODE:
        return workflow.stage in CLEANING
    return workflow.memo.asked is not None or (node.maas is not None and node.maas.status in BEING_RELEASED)


def _with(node: Node, id_: str, message: str) -> Node:
    return replace(node, conditions=conditions.added(node.conditions, conditions.stated(Source.CLEANING, id_, message)))


def _without(node: Node, id_: str) -> Node:
    return replace(node, conditions=conditions.without(node.conditions, Source.CLEANING, id_))
