"""`explanation.explain`: the reason for a node's state, and the advice that is closest to the cause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.explanation import Why, explain
from farrier.model.loop.outcome import Record
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.node.conditions import stated
from farrier.model.node.failures import BMC_ADVICE, CONDITION_ADVICE, FAILURES, FailureClass
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Bmc
from farrier.model.views.nodes import NodeDetail
from tests.unit.model.test_clocks import HOUR, MINUTE, NOW, view, workflow

SECOND = timedelta(seconds=1)


def detail(**fields: Any) -> NodeDetail:
    """An active node that has nothing to do."""
    given: dict[str, Any] = {
        "version": 1,
        "agentless": False,
        "auto_manage": True,
        "maas_id": None,
        "maas": None,
        "bmc_address": None,
        "bmc_credential": None,
        "bmc": Bmc(),
        "deleting": False,
        "outcome": Record("do_nothing", "", "farrier/x.py:1"),
        "outcome_at": NOW - HOUR,
        "controller": "rack-1",
        "swept_at": NOW - SECOND,
        "step": None,
        "step_begun_at": None,
        "last_workflow": None,
        "requests": (),
    }
    return NodeDetail(**msgspec.structs.asdict(view()) | given | fields)


CANCELLED = workflow(status="compensating", being_cancelled=True)
RESTARTED = workflow(status="compensating")
UNOWNED: dict[str, Any] = {"controller": None, "swept_at": None}


def why(patience: Patience | None = None, /, **fields: Any) -> Why:
    return explain(detail(**fields), NOW, Limits(), patience)


def test_a_node_without_faults_waits_for_nothing_and_needs_no_action() -> None:
    said = why()
    assert (said.reason, said.advice, said.errors) == (
        "waits for nothing: it is in its target state",
        "no action is needed",
        (),
    )
    assert (said.source, said.since, said.run_by) == (
        "farrier/x.py:1",
        NOW - HOUR,
        "rack-1, shard swept 1s ago",
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"outcome": Record("wait", "the agent is silent", "x.py:1")}, "the agent is silent"),
        (
            {"outcome": Record("transition", "healthy again", "x.py:1")},
            "its next run; reason of the last run: healthy again",
        ),
        ({"outcome": Record("update", "counted", "x.py:1")}, "its next run; reason of the last run: counted"),
        ({"outcome": Record("error", "see the log", "", "internal")}, "the last run failed with internal"),
        ({"outcome": None, "outcome_at": None}, "its first run"),
        ({"paused": "hands in the machine"}, "unpause: hands in the machine"),
        ({"status": "deleted", **UNOWNED}, "nothing: it is deleted"),
        ({"paused": "x", "deleting": True, "outcome": Record("wait", "MAAS releases", "x.py:1")}, "MAAS releases"),
        ({"paused": "x", "workflow": CANCELLED, "outcome": Record("wait", "MAAS releases", "x.py:1")}, "MAAS releases"),
        ({"paused": "x", "workflow": RESTARTED, "outcome": Record("wait", "waits", "x.py:1")}, "unpause: x"),
    ],
    ids=[
        *("wait", "transition", "update", "error", "new", "paused", "deleted"),
        *("deleted while paused", "cancelled while paused", "restarted while paused"),
    ],
)
def test_the_reason_comes_from_the_last_run_unless_a_pause_or_a_deletion_explains_more(
    fields: dict[str, Any], reason: str
) -> None:
    assert reason in why(**fields).reason


def test_a_deleted_node_needs_no_action_regardless_of_its_faults() -> None:
    assert why(status="deleted", **UNOWNED, bmc=BMC_DOWN, paused="x").advice == "no action is needed"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"swept_at": NOW - MINUTE}, "rack-1, shard swept 1m ago"),
        ({"step": "reset", "step_begun_at": NOW - 9 * SECOND}, "rack-1, step reset started 9s ago"),
        (UNOWNED, "no controller"),
        (
            {**UNOWNED, "step": "reset", "step_begun_at": NOW - MINUTE},
            "no controller, step reset started 1m ago, without a recorded end",
        ),
        ({"status": "deleted", **UNOWNED}, ""),
    ],
    ids=["swept", "a step", "no controller", "a step that was cut", "deleted"],
)
def test_the_explanation_names_the_controller_and_its_last_sweep_or_running_step(
    fields: dict[str, Any], said: str
) -> None:
    assert why(**fields).run_by == said


FAILED = workflow(
    status="failed_manual_intervention", failure_class="boss_disk_not_found", failure_detail="slot 0 empty"
)
BMC_DOWN = Bmc(last_error="connection refused", failure=BmcFailure.UNREACHABLE)
QUARANTINED = {
    "status": "quarantined",
    "quarantine_cause": "agent/gpu_lost",
    "quarantine_reason": "alert gpu_lost",
    "conditions": (stated("agent", "gpu_lost", "alert gpu_lost"),),
    "ever_onboarded": True,
}


def test_every_error_is_named_with_its_class() -> None:
    said = why(workflow=FAILED, bmc=BMC_DOWN, outcome=Record("error", "took 180 s", "", "timeout"), **QUARANTINED)
    assert said.errors == (
        "last run: timeout: took 180 s",
        "onboarding, stage wait_for_agent_enrollment: boss_disk_not_found: slot 0 empty",
        "BMC: unreachable: connection refused",
        "quarantined, agent/gpu_lost: alert gpu_lost",
    )


def test_a_change_of_the_bmc_by_an_intent_is_reported_without_a_failure_class() -> None:
    assert why(bmc=Bmc(last_error="the BMC details were removed")).errors == ("BMC: the BMC details were removed",)


def test_the_failure_of_an_ended_workflow_is_still_reported() -> None:
    assert "boss_disk_not_found" in why(last_workflow=FAILED).errors[0]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({**UNOWNED, "paused": "x", "bmc": BMC_DOWN}, "farrier run"),
        ({"swept_at": NOW - 61 * SECOND, "paused": "x", "bmc": BMC_DOWN}, "farrier run"),
        (
            {"outcome": Record("error", "see the log", "", "internal"), "bmc": BMC_DOWN},
            "for handler.crashed and gpu-1; its traceback",
        ),
        (
            {"outcome": Record("error", "maas: down", "", "service"), "bmc": BMC_DOWN},
            "that the error of the last run names",
        ),
        (
            {"outcome": Record("wait", "no [ufm]", "", "ufm"), "paused": "x"},
            "fix the cause that the reason names; farrier",
        ),
        ({"paused": "x", "workflow": FAILED}, "submit unpause"),
        ({"workflow": FAILED, **QUARANTINED}, FAILURES[FailureClass.BOSS_DISK_NOT_FOUND].action),
        ({"bmc": BMC_DOWN, **QUARANTINED}, CONDITION_ADVICE["agent/*"].todo),
        ({"bmc": BMC_DOWN, "workflow": workflow(mode=None)}, BMC_ADVICE[BmcFailure.UNREACHABLE].todo),
        ({"status": "enrolling", "workflow": workflow(mode=None, status="pending")}, "submit onboard"),
        ({"status": "bootstrap_issued"}, "farrier node bootstrap"),
        ({"status": "offline"}, "and agent"),
        ({"management": "error"}, "set_bmc"),
    ],
    ids=[
        "no controller",
        "not swept",
        "crash",
        "error",
        "waits with an error",
        "paused",
        "failed",
        "quarantined",
        "bmc",
        "modeless",
        "bootstrap",
        "offline",
        "no bmc",
    ],
)
def test_the_advice_is_about_the_fault_closest_to_the_cause(fields: dict[str, Any], advice: str) -> None:
    assert advice in why(**fields).advice


def test_an_unknown_cause_of_a_newer_release_is_shown_without_advice() -> None:
    said = why(status="quarantined", quarantine_cause="moonlight", quarantine_reason="too bright", ever_onboarded=True)
    assert said.errors == ("quarantined, moonlight: too bright",)
    assert said.advice == "no action is needed"


def test_an_enforcement_error_is_reported_with_advice_until_the_target_is_reached() -> None:
    bmc = Bmc(power=PowerState.OFF, power_at=NOW, desired_power=PowerState.ON, enforce_error="unsupported: no action")
    said = why(management="manageable", bmc=bmc)
    assert said.errors == ("power is off, target power is on: unsupported: no action",)
    assert said.advice.startswith("switch the machine on by hand")
    assert why(management="enroll", bmc=bmc).errors == (), "power is not enforced in this state"
    kept = msgspec.structs.replace(bmc, power=PowerState.ON)
    assert why(management="manageable", bmc=kept).errors == ()


def test_power_that_a_live_workflow_controls_is_reported_as_such() -> None:
    bmc = Bmc(power=PowerState.OFF, power_at=NOW, desired_power=PowerState.ON)
    held = why(management="manageable", bmc=bmc, workflow=workflow(kind="decommission", id=7, mode="reimage"))
    assert held.errors == (
        "power is off, target power is on: decommission 7 controls the power while the workflow is live",
    )
    assert why(management="manageable", bmc=bmc, workflow=workflow()).errors == (), (
        "this workflow does not control power"
    )


def test_unreadable_power_is_reported_with_advice_while_the_node_is_manageable() -> None:
    bmc = Bmc(power_at=NOW, sync_failure=BmcFailure.TLS, sync_error="the certificate expired")
    said = why(management="manageable", bmc=bmc)
    assert said.errors == ("power, as of 2026-01-01 12:00:00 UTC: tls: the certificate expired",)
    assert said.advice == BMC_ADVICE[BmcFailure.TLS].todo
    assert why(management="enroll", bmc=bmc).errors == ()
