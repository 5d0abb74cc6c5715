"""A cleanup that was not validated keeps a node out of service until a validation succeeds, or a release has a
reason."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Transition, Update
from farrier.model.node.conditions import VALIDATION_FAILED
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, TaskStatus, TaskType
from farrier.model.node.stages import DecommissionStage as D
from tests.support.nodes import agent, decide, decommission, intent, moved, node, reporting, task, told, unclean

UNVALIDATED = unclean(VALIDATION_FAILED, "dirty")
PARAMS: dict[Action, dict[str, object]] = {
    Action.QUARANTINE: {"reason": "fans"},
    Action.DECOMMISSION: {"mode": "soft_reset"},
    Action.ONBOARD: {"mode": "manual"},
}
# The intents of an operator that do not release the node.
ASKED = (
    *(Action.DRAIN, Action.DECOMMISSION, Action.QUARANTINE, Action.RELEASE, Action.REACTIVATE, Action.ONBOARD),
    *(Action.CANCEL, Action.RESTART_CLEAN, Action.RERUN, Action.RESUME, Action.MARK_MANUAL_INTERVENTION_REQUIRED),
)


def test_alerts_during_the_undo_of_a_drain_do_not_replace_the_cause() -> None:
    job = decommission(D.DRAIN_NODE, mode=DecommissionMode.SOFT_RESET)
    it = node(N.DRAINING, workflow=job, agent=agent("gpu-1"), conditions=(*told(agent("gpu-1")), UNVALIDATED))
    undoing = replace(moved(decide(replace(it, intents=(intent(Action.RESTART_CLEAN),)))), intents=())
    assert undoing.status is N.OFFLINE
    blocked = moved(decide(undoing))
    assert blocked.status is N.QUARANTINED and UNVALIDATED in blocked.conditions
    well = reporting(replace(blocked, workflow=None), agent())
    assert not isinstance(decide(well), Transition), "the node must not return to service by itself"


def settled(it: Node) -> Node:
    """The node after all runs that follow at once."""
    for _ in range(20):
        decision = decide(it)
        if not isinstance(decision, Transition | Update) or decision.to == it:
            return it
        it = ended(decision.to)
    raise AssertionError("the node never rests")


def ended(it: Node) -> Node:
    """The next snapshot: without answered intents, and without a workflow that has ended."""
    over = it.workflow is not None and it.workflow.status in (W.COMPLETED, W.CANCELLED, W.RECONCILED)
    return replace(it, intents=(), workflow=None if over else it.workflow, tasks=() if over else it.tasks)


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("well", [True, False], ids=["healthy", "alerts"])
@pytest.mark.parametrize(("first", "second"), [*product(ASKED, ASKED)])
def test_no_two_intents_return_the_node_to_service_or_replace_the_cause(
    first: Action, second: Action, well: bool
) -> None:
    """Alerts that block scheduling come and go between the requests."""
    it = node(N.QUARANTINED, agent=agent(), conditions=(UNVALIDATED,))
    for action in (first, second):
        decision = decide(replace(it, intents=(intent(action, **PARAMS.get(action, {})),)))
        it = ended(decision.to) if isinstance(decision, Transition | Update) and decision.to is not None else it
        it = settled(reporting(it, it.agent and agent(*(() if well else ("gpu-1",)))))
        it = settled(reporting(it, it.agent and agent()))
        assert it.failed_validation and it.status is not N.ACTIVE, (action, it.status, it.conditions)


def test_a_release_by_name_with_a_reason_or_a_successful_validation_clears_the_cause() -> None:
    it = node(N.QUARANTINED, agent=agent(), conditions=(UNVALIDATED,))
    asked = intent(Action.RELEASE, key="cleaning/validation_failed", reason="cleaned by hand")
    released = moved(decide(replace(it, intents=(asked,))))
    assert (released.status, released.conditions) == (N.ACTIVE, ())
    done = task(TaskType.VALIDATE_CLEAN, TaskStatus.SUCCEEDED)
    job = decommission(D.VALIDATE_CLEAN_NODE, mode=DecommissionMode.SOFT_RESET)
    validated = moved(decide(node(N.RETIRED, workflow=job, agent=agent(), tasks=(done,), conditions=(UNVALIDATED,))))
    assert validated.conditions == ()
