"""Intent `set`: which values may change under which workflow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.node.layers import DecommissionMode as D
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode as O
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.snapshot import Workflow
from farrier.model.node.writes import SetDetails
from tests.support.details import VALUES
from tests.support.nodes import answers, decide, decommission, intent, node, onboarding, writes

# The details that a live workflow uses, by its mode; it uses no others.
USED: dict[O | D | None, set[str]] = {
    None: set(),
    O.DEPLOY: {"site", "model", "labels", "macs", "maas_id", "agentless"},
    O.ADOPT: {"site", "model", "labels", "macs", "maas_id", "agentless"},
    O.MANUAL: {"agentless"},
    D.SOFT_RESET: {"agentless"},
    D.REIMAGE: {"site", "maas_id", "agentless"},
    D.FULL_DECOMMISSION: {"site", "maas_id", "agentless"},
    D.STORAGE_CLEANUP: {"site", "maas_id", "agentless"},
}


def live(mode: O | D | None) -> Workflow:
    return decommission(mode=mode) if isinstance(mode, D) else onboarding(mode=mode)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("mode", USED, ids=str)
def test_a_detail_changes_unless_the_live_workflow_uses_it(mode: O | D | None, value: str) -> None:
    workflow = live(mode)
    where = N.ENROLLING if workflow.kind is WorkflowKind.ONBOARDING else N.RETIRED
    asked = intent(Action.SET, **{value: VALUES[value]})
    decision = decide(replace(node(where, workflow=workflow), intents=(asked,)))
    ((verdict, reason),) = answers(decision)
    if value in USED[mode]:
        assert verdict == "rejected" and f"{value} is used by {workflow.kind} {workflow.id} ({mode}, " in reason
    else:
        assert verdict == "accepted"
        assert [write.params for write in writes(decision) if isinstance(write, SetDetails)] == [asked.params]


@pytest.mark.parametrize("value", VALUES)
def test_all_details_change_without_a_live_workflow(value: str) -> None:
    asked = intent(Action.SET, **{value: VALUES[value]})
    ((verdict, _),) = answers(decide(replace(node(N.ACTIVE), intents=(asked,))))
    assert verdict == "accepted"


def test_a_detail_that_the_live_workflow_uses_cannot_be_removed() -> None:
    asked = intent(Action.SET, unset=["maas_id"])
    ((verdict, reason),) = answers(decide(replace(node(workflow=onboarding(mode=O.DEPLOY)), intents=(asked,))))
    assert verdict == "rejected" and "maas_id is used by" in reason
