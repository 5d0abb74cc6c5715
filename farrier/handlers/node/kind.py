"""Implements `protocols.Kind` for nodes: the layers of their workflows, metric labels, answers and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from typing_extensions import override

from farrier.handlers.node.changes import layers
from farrier.handlers.resource.kind import LayeredKind
from farrier.model.kinds.measures import Sample
from farrier.model.loop.runs import AnsweredIntent, LayerState
from farrier.model.node.layers import FAILED
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.node.spec import SPEC, STAGE_LAYERS
from farrier.model.node.writes import AnswerIntent

FAILURES = "workflow_failures"
FAILURE_LABELS = ("workflow", "stage", "failure_class")


class NodeKind(LayeredKind[Node]):
    """Implements `protocols.Kind` for nodes."""

    @override
    def current_layers(self, resource: Node) -> Mapping[str, LayerState]:
        places = {
            "status": LayerState(resource.status, resource.status_entered_at),
            "management": LayerState(resource.management, resource.management_entered_at),
        }
        workflow = resource.workflow
        if workflow is not None:
            places[workflow.kind] = LayerState(workflow.status, workflow.status_entered_at)
            if workflow.stage is not None:
                places[STAGE_LAYERS[workflow.kind]] = LayerState(workflow.stage, workflow.stage_entered_at)
        return places

    target_layers = staticmethod(layers)

    def label(self, resource: Node) -> tuple[str, str]:
        stage = resource.workflow.stage if resource.workflow is not None else None
        return resource.status, stage or ""

    def asked_alone(self, resource: Node, intent: int, /) -> Node:
        return replace(resource, intents=tuple(each for each in resource.intents if each.id == intent))

    def answers(self, resource: Node, writes: Sequence[object], /) -> Sequence[AnsweredIntent]:
        asked = {intent.id: intent for intent in resource.intents}
        return [
            AnsweredIntent(
                request=write.intent,
                action=asked[write.intent].action if write.intent in asked else "",
                verdict=write.status,
                reason=write.reason,
                by=asked[write.intent].requested_by if write.intent in asked else None,
            )
            for write in writes
            if isinstance(write, AnswerIntent)
        ]

    def samples(self, resource: Node, to: Node, /) -> Sequence[Sample]:
        """Return a sample if a workflow begins to fail in this run, even if the workflow retries by itself."""
        before, after = resource.workflow, to.workflow
        if after is None or after.failure_class is None or not _has_failed(after):
            return ()
        if before is not None and _has_failed(before) and before.failure_class is after.failure_class:
            return ()
        values = (str(after.kind), str(after.stage or ""), str(after.failure_class))
        return (Sample(FAILURES, dict(zip(FAILURE_LABELS, values, strict=True))),)


def _has_failed(workflow: Workflow) -> bool:
    """Return whether the workflow has failed, or was requested to stop on its way to the failed state."""
    return workflow.status in FAILED or workflow.stop_requested is not None


NODE_KIND = NodeKind(SPEC)
