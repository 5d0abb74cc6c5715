"""Shared code of the stages that judge the region's check of a released machine."""

from __future__ import annotations

from farrier.handlers.node.changes import Done, Failed, StageStep, at_stage, own
from farrier.handlers.node.decommission.progress import pointless
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Node, StopRequest
from farrier.model.node.stages import DecommissionStage


def by_region(node: Node) -> bool:
    """Return whether the region cleans this machine. A machine that still runs its agent was not released."""
    return own(node).options.cleaned_by is CleaningBy.REGION and pointless(node) is not None


def unchecked(node: Node) -> Done:
    """Return a finished stage if stage `cleanup_storage` did not check the machine, with the reason of that stage."""
    stage = DecommissionStage.CLEANUP_STORAGE
    why = next((each.why for each in own(node).skipped if each.stage == stage), "the machine was not checked")
    return Done(reason=why, skipped=why)


def again(node: Node) -> StageStep | None:
    """Go back to the check in a further attempt of a stage that only judges its evidence."""
    if node.live.status_entered_at <= node.live.stage_entered_at:
        return None
    return StageStep(to=at_stage(node, DecommissionStage.CLEANUP_STORAGE), reason="the machine is checked again")


def unclean(why: str) -> Failed:
    """Fail for good, because another check would find the same."""
    return Failed(failure=FailureClass.VALIDATION_FAILED, detail=why, stop=StopRequest.FAILED)
