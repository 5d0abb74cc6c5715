"""A pause uses up no deadline. After the pause, every wait has its whole time again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.workflow.compensating import CAUSE
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Transition, Wait
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Node, Pause, TaskType, Workflow, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.writes import EndTask
from tests.support.nodes import HANDLER, MINUTE, NOW, agent, decommission, intent, moved, node, onboarding, task, writes

DAY = timedelta(days=1)
ENOUGH = NodeConfig().force_after


def paused_for_a_day(workflow: Workflow, **fields: Any) -> Node:
    """The node in the commit that ends its pause."""
    pause = Pause("the rack is moved", NOW - DAY)
    it = node(paused=pause, workflow=workflow, intents=(intent(Action.UNPAUSE),), **fields)
    return replace(moved(HANDLER.handle(it, NOW)), intents=())


def entered(at: datetime) -> dict[str, Any]:
    return {"status_entered_at": at, "stage_entered_at": at}


def test_after_a_pause_a_stage_has_its_whole_deadline_again() -> None:
    it = paused_for_a_day(onboarding(**entered(NOW - DAY)))
    assert isinstance(HANDLER.handle(it, NOW + MINUTE), Wait)
    late = HANDLER.handle(it, NOW + DAY)
    assert isinstance(late, Transition) and "timeout" in late.reason


def test_after_a_pause_force_waits_the_whole_time_for_the_agent_again() -> None:
    """No agent can claim the task of a paused node."""
    job = decommission(D.SCRUB_GPU, options=WorkflowOptions(force=True, reason="it is dead"), **entered(NOW - DAY))
    it = paused_for_a_day(job, status=N.RETIRED, agent=agent(), tasks=(task(TaskType.SCRUB_GPU),))
    assert not given_up(it, NOW + ENOUGH - MINUTE)
    assert given_up(it, NOW + ENOUGH)


def given_up(it: Node, now: datetime) -> bool:
    return any(isinstance(write, EndTask) for write in writes(HANDLER.handle(it, now)))


@pytest.mark.parametrize("after", AfterUndo)
def test_after_a_pause_an_undo_has_its_whole_time_again(after: AfterUndo) -> None:
    job = onboarding(
        W.COMPENSATING, mode=OnboardingMode.DEPLOY, stage=O.WAIT_FOR_DEPLOYED, after_undo=after, **entered(NOW - DAY)
    )
    it = paused_for_a_day(job)
    assert isinstance(HANDLER.handle(it, NOW + MINUTE), Wait)
    late = HANDLER.handle(it, NOW + DAY)
    assert isinstance(late, Transition) and late.cause == CAUSE and "did not finish in time" in late.reason
