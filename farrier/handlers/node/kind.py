"""What the loop must know about nodes: layers, their edges, and labels.

A workflow's stage is a layer of its own in history, with its own clock; any stage may follow any other of the same
workflow, because operators may rerun from the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from farrier.handlers.node.moves import layers, stage_layer
from farrier.model import edges
from farrier.model.edges import NODE
from farrier.model.measures import Sample
from farrier.model.node import Node, Workflow
from farrier.model.runs import Answered, Place
from farrier.model.stages import DecommissionStage, OnboardingStage
from farrier.model.workflow import FAILED, WorkflowKind
from farrier.model.writes import AnswerIntent

FAILURES = "workflow_failures"
FAILURE_LABELS = ("workflow", "stage", "failure_class")


def _any_order(stages: type[StrEnum]) -> frozenset[tuple[str, str]]:
    return frozenset((str(a), str(b)) for a in stages for b in stages if a is not b)


class NodeKind:
    """`protocols.Kind` of nodes."""

    name = NODE
    edges: Mapping[str, frozenset[tuple[str, str]]] = {
        **{str(layer): pairs for layer, pairs in edges.ALLOWED.items()},
        stage_layer(WorkflowKind.ONBOARDING): _any_order(OnboardingStage),
        stage_layer(WorkflowKind.DECOMMISSION): _any_order(DecommissionStage),
    }

    def identify(self, resource: Node) -> tuple[int, int]:
        return resource.id, resource.version

    def display_name(self, resource: Node) -> str:
        return resource.name

    def current_layers(self, resource: Node) -> Mapping[str, Place]:
        places = {
            "status": Place(resource.status, resource.status_entered_at),
            "management": Place(resource.management, resource.management_entered_at),
        }
        workflow = resource.workflow
        if workflow is not None:
            places[workflow.kind] = Place(workflow.status, workflow.status_entered_at)
            if workflow.stage is not None:
                places[stage_layer(workflow.kind)] = Place(workflow.stage, workflow.stage_entered_at)
        return places

    def target_layers(self, to: Node) -> Mapping[str, str]:
        return layers(to)

    def label(self, resource: Node) -> tuple[str, str]:
        stage = resource.workflow.stage if resource.workflow is not None else None
        return resource.status, stage or ""

    def answers(self, resource: Node, writes: Sequence[object], /) -> Sequence[Answered]:
        asked = {intent.id: intent for intent in resource.intents}
        return [
            Answered(
                request=write.intent,
                action=asked[write.intent].action if write.intent in asked else "",
                verdict=write.verdict,
                reason=write.reason,
                by=asked[write.intent].requested_by if write.intent in asked else None,
            )
            for write in writes
            if isinstance(write, AnswerIntent)
        ]

    def samples(self, resource: Node, to: Node, /) -> Sequence[Sample]:
        """The failure of a workflow that begins with this run: to be tried again, or for an operator."""
        before, after = resource.workflow, to.workflow
        if after is None or after.failure_class is None or not _has_failed(after):
            return ()
        if before is not None and _has_failed(before) and before.failure_class is after.failure_class:
            return ()
        told = (str(after.kind), str(after.stage or ""), str(after.failure_class))
        return (Sample(FAILURES, dict(zip(FAILURE_LABELS, told, strict=True))),)


def _has_failed(workflow: Workflow) -> bool:
    """A decommission that is to stop has failed before it gets to the state that says so."""
    return workflow.status in FAILED or workflow.stop_requested is not None


NODE_KIND = NodeKind()
