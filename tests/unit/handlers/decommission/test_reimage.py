"""Mode `reimage`: the node is emptied, its machine is released, and the same node is installed again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Wait
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import DecommissionMode, OnboardingMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, Onboarding, Pause, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from tests.support.nodes import NOW, agent, answers, decommission, intent, moved, node
from tests.support.stages import SITE

HANDLER = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
LAST = decommission(D.RETIRE_GPUAAS_NODE, mode=DecommissionMode.REIMAGE)


def in_maas(status: N = N.RETIRED, **fields: Any) -> Node:
    return node(status, **{"site": SITE.name, "maas_id": "abc123"} | fields)


def seen(state: MaasStatus, *, age: timedelta = timedelta(0)) -> MaasObservation:
    at = NOW - age
    return MaasObservation(system_id="abc123", state=state, since=at, read_at=at, fresh_at=at)


def asked(node: Node, action: Action, **params: Any) -> tuple[str, str]:
    (answer,) = answers(HANDLER.handle(replace(node, intents=(intent(action, **params),)), NOW))
    return answer


# --- the second half


def test_a_reimage_ends_in_retired_and_then_installs_the_same_node_again() -> None:
    emptied = moved(HANDLER.handle(in_maas(workflow=LAST), NOW))
    assert emptied.workflow is not None and emptied.workflow.status is W.COMPLETED
    assert (emptied.status, emptied.redeploying) == (N.RETIRED, True)
    begun = moved(HANDLER.handle(replace(emptied, workflow=None), NOW))
    assert isinstance(begun.workflow, Onboarding) and begun.workflow.mode is OnboardingMode.DEPLOY
    assert begun.workflow.status is W.PENDING and begun.workflow.mode_given_at == NOW
    assert (begun.status, begun.redeploying) == (N.RETIRED, False), "the second half begins only once"


def test_a_paused_node_is_installed_after_its_pause_ends() -> None:
    waiting = in_maas(redeploying=True, paused=Pause("fire drill", NOW))
    decision = HANDLER.handle(waiting, NOW)
    assert isinstance(decision, Wait) and "fire drill" in decision.reason
    assert moved(HANDLER.handle(replace(waiting, paused=None), NOW)).workflow is not None


def test_a_reimage_with_the_option_retire_installs_nothing() -> None:
    kept = replace(LAST, options=WorkflowOptions(retire=True))
    assert not moved(HANDLER.handle(in_maas(workflow=kept), NOW)).redeploying


@pytest.mark.parametrize("mode", [DecommissionMode.SOFT_RESET, DecommissionMode.STORAGE_CLEANUP])
def test_no_other_mode_installs_anything(mode: DecommissionMode) -> None:
    last = decommission(D.RETIRE_GPUAAS_NODE, mode=mode, options=WorkflowOptions(leave_out=(D.REMOVE_MAAS_RECORD,)))
    ended = moved(HANDLER.handle(in_maas(agent=agent(), workflow=last), NOW))
    assert (ended.status, ended.redeploying) == (N.OFFLINE, False)


@pytest.mark.parametrize(
    ("action", "params"),
    [
        (Action.REMOVE, {}),
        (Action.DECOMMISSION, {"mode": "full_decommission"}),
        (Action.REACTIVATE, {}),
        (Action.ONBOARD, {"mode": "manual"}),
    ],
)
def test_an_intent_before_the_installation_begins_replaces_the_installation(
    action: Action, params: dict[str, Any]
) -> None:
    waiting = in_maas(redeploying=True, agent=agent(), intents=(intent(action, **params),))
    after = moved(HANDLER.handle(waiting, NOW))
    assert not after.redeploying
    assert not isinstance(after.workflow, Onboarding) or after.workflow.mode is OnboardingMode.MANUAL


# --- intents


def test_a_reimage_is_accepted_if_maas_can_install_the_machine() -> None:
    assert asked(in_maas(N.ACTIVE, agent=agent()), Action.DECOMMISSION, mode="reimage")[0] == "accepted"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"maas_id": None}, "this node has no MAAS ID"),
        ({"site": None}, "site (none) has no MAAS configured"),
        ({"site": "nowhere"}, "site nowhere has no MAAS configured"),
    ],
)
def test_a_reimage_is_refused_if_maas_cannot_install_the_machine(fields: dict[str, Any], expected: str) -> None:
    verdict, reason = asked(in_maas(N.ACTIVE, agent=agent(), **fields), Action.DECOMMISSION, mode="reimage")
    assert verdict == "rejected" and expected in reason


@pytest.mark.parametrize("site", [None, "nowhere"])
def test_only_a_machine_in_maas_needs_maas_for_a_full_decommission(site: str | None) -> None:
    node = in_maas(N.ACTIVE, agent=agent(), site=site)
    full = {"mode": "full_decommission", "leave_on": True}
    verdict, reason = asked(node, Action.DECOMMISSION, **full)
    assert verdict == "rejected" and f"but site {site or '(none)'} has no MAAS configured; submit drain" in reason
    verdict, reason = asked(replace(node, maas_id=None), Action.DECOMMISSION, **full)
    assert verdict == "accepted", reason
    begun = replace(node, status=N.DRAINING, workflow=decommission(D.DRAIN_NODE))
    verdict, reason = asked(begun, Action.DECOMMISSION, mode="full_decommission", force=True, reason="it is gone")
    assert verdict == "accepted" and "extended" in reason, "farrier itself recommends this for a live decommission"


@pytest.mark.parametrize(
    ("state", "age", "verdict", "because"),
    [
        (MaasStatus.DEPLOYED, timedelta(0), "accepted", ""),
        (MaasStatus.READY, timedelta(0), "rejected", "no longer deployed"),
        (MaasStatus.OTHER, timedelta(0), "rejected", "no longer deployed"),
        (MaasStatus.ABSENT, timedelta(0), "rejected", "machine abc123 no longer exists in MAAS"),
        (MaasStatus.READY, timedelta(hours=1), "accepted", ""),  # a stale observation proves nothing
    ],
)
def test_a_node_whose_machine_was_released_is_not_reactivated(
    state: MaasStatus, age: timedelta, verdict: str, because: str
) -> None:
    for retired in (in_maas(agent=agent()), in_maas(agentless=True)):
        status, reason = asked(replace(retired, maas=seen(state, age=age)), Action.REACTIVATE)
        assert status == verdict
        assert because in reason


@pytest.mark.parametrize(
    ("fields", "verdict", "expected"),
    [
        ({"maas": seen(MaasStatus.READY)}, "accepted", ""),
        ({}, "accepted", ""),
        ({"maas_id": None, "site": None}, "accepted", ""),
        ({"maas": seen(MaasStatus.DEPLOYED)}, "rejected", "full_decommission"),
        ({"maas": seen(MaasStatus.DEPLOYED, age=timedelta(hours=1))}, "accepted", ""),
        ({"site": None}, "rejected", "no MAAS configured"),
    ],
)
def test_a_removal_that_could_not_delete_the_machine_is_refused(
    fields: dict[str, Any], verdict: str, expected: str
) -> None:
    answer = asked(in_maas(agent=agent(), **fields), Action.REMOVE, remove_maas=True)
    assert answer[0] == verdict and expected in answer[1]
    assert asked(in_maas(agent=agent(), **fields), Action.REMOVE)[0] == "accepted", "the node keeps its machine"
