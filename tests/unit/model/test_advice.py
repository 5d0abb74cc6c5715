"""Advice about a node: about its wait first, then about other faults; and every exceeded limit has advice."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.model.advice import recommended
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.explanation import explain
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Record
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.conditions import stated
from farrier.model.node.failures import BMC_ADVICE, FAILURES, FailureClass
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Bmc
from farrier.model.views.nodes import MaasView, RegionView, RequestView, WorkflowView
from tests.unit.model.test_clocks import HOUR, MINUTE, NOW, workflow
from tests.unit.model.test_explanation import UNOWNED, detail, why

DEPLOYING = Record("wait", "waits for MAAS to deploy the machine: starting the machine", "x.py:1")
INCOMPLETE = Bmc(last_error="no directory is configured", failure=BmcFailure.INCOMPLETE)


def region(**fields: Any) -> RegionView:
    """The region of site demo-1, which has failed for two minutes."""
    given: dict[str, Any] = {
        "site": "demo-1",
        "state": "failing",
        "since": NOW - 2 * MINUTE,
        "username": "farrier",
        "complete_at": NOW - 2 * MINUTE,
        "last_error": "events: unreachable: connection refused",
    }
    return RegionView(**given | fields)


def seen(age: timedelta, **fields: Any) -> MaasView:
    """An observation of a deploying machine that was last read so long ago."""
    given = {"stale_since": None, "fresh_at": NOW - age, **fields}
    return MaasView(system_id="abc", state="deploying", since=NOW - HOUR, read_at=NOW - age, **given)


def deployment(age: timedelta = MINUTE, **fields: Any) -> WorkflowView:
    given = {"mode": "deploy", "stage": "wait_for_deployed", "stage_entered_at": NOW - age, "mode_given_at": NOW - age}
    return workflow(**given | fields)


def drain(age: timedelta = MINUTE) -> WorkflowView:
    return workflow(
        kind="decommission", mode="soft_reset", stage="drain_node", stage_entered_at=NOW - age, mode_given_at=NOW - age
    )


LATE: dict[str, Any] = {"status": "enrolling", "site": "demo-1", "maas_id": "abc", "outcome": DEPLOYING}
TASK: dict[str, Any] = {
    "status": "draining",
    "outcome": Record("wait", "waits for an agent to take task 7 (drain)", "x.py:1"),
    "last_heartbeat_at": NOW - MINUTE,
}


def test_the_advice_for_a_late_deployment_in_a_failing_region_is_about_the_region() -> None:
    said = why(**LATE, workflow=deployment(3 * HOUR), region=region(), maas=seen(2 * MINUTE))
    assert said.reason == "waits for MAAS to deploy the machine: starting the machine"
    assert "MAAS of site demo-1, failing for 2m: events: unreachable: connection refused" in said.errors
    assert said.advice == "the MAAS region of site demo-1 has failed for 2m; farrier site list shows its error"
    assert said.maas == seen(2 * MINUTE)


def test_the_advice_for_an_unconfigured_region_is_about_the_settings() -> None:
    said = why(**LATE, workflow=deployment(), region=region(state="unconfigured"))
    assert "does not have the site in its settings" in said.advice


def test_a_node_outside_of_maas_has_no_advice_about_a_failing_region() -> None:
    said = why(site="demo-1", region=region())
    assert (said.errors, said.advice) == ((), "no action is needed")


def test_a_fault_of_a_node_in_service_comes_before_the_fault_of_its_region() -> None:
    node: dict[str, Any] = {"site": "demo-1", "maas_id": "abc", "region": region()}
    assert "MAAS region of site demo-1" in why(**node).advice
    assert why(**node, bmc=INCOMPLETE).advice == recommended.text(BMC_ADVICE[BmcFailure.INCOMPLETE])


@pytest.mark.parametrize(
    ("maas", "said"),
    [
        (seen(4 * MINUTE), "no action is needed"),
        (
            seen(6 * MINUTE),
            "farrier last read the node's machine in MAAS 6m ago; farrier site list shows the state of the region",
        ),
        (seen(HOUR, stale_since=NOW - MINUTE), "no action is needed"),
        (seen(HOUR, stale_since=NOW - 7 * MINUTE), "farrier last read the node's machine in MAAS 7m ago"),
        (seen(HOUR, fresh_at=NOW - MINUTE), "no action is needed"),
    ],
    ids=["fresh", "old", "has just changed", "changed and was not read", "known to hold"],
)
def test_an_observation_that_is_too_old_to_act_on_is_reported_as_old(maas: MaasView, said: str) -> None:
    assert why(**LATE, workflow=deployment(), region=region(state="observing"), maas=maas).advice.startswith(said)


def test_a_status_of_maas_that_this_release_does_not_know_has_advice() -> None:
    maas = MaasView(
        system_id="abc", state="unknown", since=NOW - HOUR, read_at=NOW, stale_since=None, fresh_at=NOW - MINUTE
    )
    said = why(site="demo-1", maas_id="abc", region=region(state="observing"), maas=maas)
    assert said.advice == "update farrier, or bring the machine into a status that this release knows"


def test_there_is_always_advice_above_a_limit() -> None:
    said = why(**LATE, workflow=deployment(3 * HOUR), region=region(state="observing"), maas=seen(MINUTE))
    assert said.advice == (
        "onboarding running/wait_for_deployed has lasted since 2026-01-01 09:00:00 UTC, 2h above its limit: check "
        "what the node waits for, and fix the cause"
    )
    assert why(**LATE, workflow=deployment(), region=region(state="observing")).advice == "no action is needed"
    assert "above its limit" in why(status="removing", workflow=drain(99 * HOUR), last_heartbeat_at=NOW).advice


def test_the_advice_for_a_late_undo_names_no_intent() -> None:
    undone = deployment(status="compensating", status_entered_at=NOW - 3 * HOUR)
    assert why(**LATE, workflow=undone).advice.endswith(
        "above its limit: check what the node waits for, and fix the cause"
    )


def test_the_advice_for_a_task_of_a_silent_agent_is_about_the_agent() -> None:
    heard = NOW - 10 * MINUTE
    said = why(**TASK | {"last_heartbeat_at": heard}, workflow=drain(5 * HOUR), bmc=INCOMPLETE, region=region())
    assert said.advice.startswith("the node's agent has sent no heartbeat since 2026-01-01 11:50:00 UTC, 10m ago")
    assert said.advice.endswith(
        "then submit decommission with mode: soft_reset and force: true and a reason if the agent is gone for good"
    )
    assert said.last_heartbeat_at == heard
    patience = Patience(offline_after=15 * MINUTE)
    patient = why(patience, **TASK | {"last_heartbeat_at": heard}, workflow=drain())
    assert "farrier task list gpu-1" in patient.advice
    assert (
        "the agent of this node has never sent a heartbeat"
        in why(**TASK | {"last_heartbeat_at": None}, workflow=drain()).advice
    )


def test_the_advice_for_a_task_of_a_live_agent_is_about_the_task_and_not_the_bmc() -> None:
    said = why(**TASK, workflow=drain(), bmc=INCOMPLETE)
    assert "farrier task list gpu-1" in said.advice
    assert said.errors == ("BMC: incomplete: no directory is configured",)
    assert "above its limit" in why(**TASK, workflow=drain(5 * HOUR), bmc=INCOMPLETE).advice


def test_the_advice_for_a_node_without_its_agent_is_about_the_agent_and_not_the_bmc() -> None:
    said = why(status="enrolling", workflow=workflow(), bmc=INCOMPLETE, outcome=_wait("waits for the agent to enrol"))
    assert said.reason == "waits for the agent to enrol"
    assert "farrier node bootstrap gpu-1" in said.advice


def test_an_agent_of_a_deployed_machine_has_until_the_limit_to_enrol_without_advice() -> None:
    enrols = deployment(stage="wait_for_agent_enrollment")
    node = LATE | {"outcome": _wait("waits for the agent to enrol")}
    assert why(**node, workflow=enrols).advice == "no action is needed"
    late = deployment(HOUR, stage="wait_for_agent_enrollment")
    assert "farrier node bootstrap gpu-1" in why(**node, workflow=late).advice


@pytest.mark.parametrize(
    ("mode", "status", "enrols"),
    [("deploy", "enrolling", True), ("adopt", "retired", True), ("adopt", "enrolling", False)],
)
def test_the_advice_for_an_agent_of_an_earlier_installation_is_to_enrol_it_again(
    mode: str, status: str, enrols: bool
) -> None:
    begun = NOW - HOUR
    node: dict[str, Any] = {
        "status": status,
        "workflow": workflow(mode=mode, stage_entered_at=begun, mode_given_at=begun),
        "last_heartbeat_at": NOW - 10 * MINUTE,
    }
    before, after = (why(**node, enrolled_at=begun + MINUTE * late).advice for late in (-1, 1))
    assert ("farrier node bootstrap gpu-1" in before) is enrols
    assert "no heartbeat since" in after


def test_the_advice_for_an_agent_without_heartbeats_is_to_start_it() -> None:
    said = why(status="enrolling", workflow=workflow(), enrolled_at=NOW)
    assert said.advice.startswith("the agent of this node has never sent a heartbeat: start it")


def test_the_advice_for_a_wait_for_the_bmc_is_about_the_bmc() -> None:
    late = {"bmc": INCOMPLETE, "region": region()}
    waits = deployment(HOUR, stage="resolve_power_credentials")
    assert why(**LATE, workflow=waits, **late).advice == recommended.text(BMC_ADVICE[BmcFailure.INCOMPLETE])
    proves = deployment(HOUR, stage="wait_for_agent_enrollment")
    assert why(**LATE, workflow=proves, **late, agentless=True).advice == recommended.text(
        BMC_ADVICE[BmcFailure.INCOMPLETE]
    )
    assert "MAAS region" in why(**LATE, workflow=deployment(HOUR, stage="commission_node"), **late).advice


BLOCKED: dict[str, Any] = {
    "status": "quarantined",
    "quarantine_cause": "workflow/onboarding_failed",
    "quarantine_reason": "serial differs",
    "conditions": (stated("workflow", "onboarding_failed", "serial differs"),),
}


def test_a_quarantine_needs_no_action_while_its_failed_onboarding_runs_again() -> None:
    again = deployment()
    said = why(**BLOCKED, workflow=again, last_workflow=again, outcome=DEPLOYING)
    assert (said.errors, said.advice) == ((), "no action is needed")
    assert said.quarantine == "workflow/onboarding_failed: serial differs"


def test_a_quarantine_for_a_failed_onboarding_names_the_class_of_the_failure() -> None:
    ended = deployment(status="cancelled", failure_class="identity_mismatch")
    said = why(**BLOCKED, last_workflow=ended)
    assert said.advice == (
        "the node's onboarding failed with identity_mismatch: fix the cause of the node's quarantine; then submit "
        "onboard with mode: manual if a person installs the machine"
    )
    assert said.quarantine is None and "quarantined, workflow/onboarding_failed: serial differs" in said.errors
    failed = deployment(status="failed_manual_intervention", failure_class="identity_mismatch")
    in_use = FAILURES[FailureClass.IDENTITY_MISMATCH].action.replace("replace: true", "replace: true and force: true")
    assert why(**BLOCKED, workflow=failed, last_workflow=failed).advice == in_use


@pytest.mark.parametrize("agentless", [False, True])
def test_force_is_advised_for_a_node_without_an_agent(agentless: bool) -> None:
    said = why(
        status="quarantined",
        quarantine_cause="region/disagreement",
        quarantine_reason="x",
        conditions=(stated("region", "disagreement", "x"),),
        ever_onboarded=True,
        agentless=agentless,
    )
    assert ("force: true" in said.advice) is agentless


@pytest.mark.parametrize(
    ("requires", "maas_id", "enrolled_at", "modes"),
    [
        ("outside", "abc", NOW, {"reimage"}),
        ("none", "abc", NOW, {"soft_reset", "reimage"}),
        ("none", "abc", None, {"reimage"}),
        ("none", None, NOW, {"soft_reset"}),
    ],
    ids=["only from outside", "both", "a released machine has no agent", "no region"],
)
def test_a_cleaning_that_nobody_could_do_or_the_site_would_not_accept_is_not_advised(
    requires: str, maas_id: str | None, enrolled_at: datetime | None, modes: set[str]
) -> None:
    ready = msgspec.structs.replace(seen(MINUTE), state="ready") if maas_id else None
    it = {"status": "retired", "site": "demo-1", "maas_id": maas_id, "maas": ready, "ever_onboarded": True}
    unclean = (stated("cleaning", "not_scrubbed", "skipped"),)
    said = why(**it, region=region(state="observing", requires=requires), conditions=unclean, enrolled_at=enrolled_at)
    assert {each.params["mode"] for each in said.recommended if each.action is Action.DECOMMISSION} == modes


def test_the_advice_for_a_timeout_in_a_failing_region_is_about_the_region() -> None:
    failed = deployment(status="failed_retryable", failure_class="timeout")
    said = why(**LATE, workflow=failed, region=region())
    assert ("site list" in said.advice, said.command) == (True, None)


# --- intents


def asked(age: timedelta, **fields: Any) -> RequestView:
    given: dict[str, Any] = {
        "id": 25,
        "action": "drain",
        "params": {},
        "requested_by": "root",
        "status": "pending",
        "reason": None,
        "created_at": NOW - age,
        "answered_at": None,
    }
    return RequestView(**given | fields)


def test_a_node_without_a_controller_waits_for_a_run_that_answers_its_intent() -> None:
    said = why(requests=(asked(MINUTE),), **UNOWNED)
    assert said.reason == "waits for a run that answers intent 25 (drain)"
    assert said.advice.startswith("no controller runs its handler: check that farrier run is up")
    assert said.unanswered == (asked(MINUTE),)


def test_a_shard_may_wait_two_periods_of_the_controllers_for_its_sweep() -> None:
    period = timedelta(minutes=10)
    late = detail(swept_at=NOW - 20 * MINUTE)
    assert explain(late, NOW, Limits(), period=period).advice == "no action is needed"
    later = detail(swept_at=NOW - 21 * MINUTE)
    assert explain(later, NOW, Limits(), period=period).advice.startswith("no controller runs its handler")


def test_a_pending_intent_waits_for_a_run_of_the_controller() -> None:
    assert "answers intent 25" in why(requests=(asked(MINUTE),)).advice


def test_unanswered_intents_are_listed_oldest_first() -> None:
    requests = (asked(MINUTE, id=27), asked(MINUTE, id=26, status="accepted"), asked(HOUR, id=25))
    assert [request.id for request in why(requests=requests).unanswered] == [25, 27]


# --- commands that can be pasted


def test_an_advice_with_one_intent_has_a_command() -> None:
    assert why(paused="hands in the machine").command == "farrier node unpause gpu-1"
    failed = deployment(status="failed_manual_intervention", failure_class="boss_disk_not_found")
    assert why(**LATE, workflow=failed).command == "farrier node retry-stage gpu-1"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"status": "quarantined", "quarantine_cause": "operator", "quarantine_reason": "fans"},
        {"status": "quarantined", "quarantine_cause": "cleanup_validation_failed", "quarantine_reason": "disks"},
        {"workflow": workflow(status="failed_retryable", failure_class="boss_disk_not_found"), "deleting": True},
        {"workflow": workflow(status="failed_retryable", failure_class="boss_disk_not_found"), "status": "dreaming"},
        {"paused": "x", **UNOWNED},
    ],
    ids=["nothing", "a choice", "nothing to retry", "being deleted", "a newer status", "no controller"],
)
def test_no_command_is_offered_for_a_choice_or_for_an_intent_that_would_be_refused(fields: dict[str, Any]) -> None:
    assert why(**fields).command is None


def _wait(reason: str) -> Record:
    return Record("wait", reason, "x.py:1")


def test_the_explanation_contains_the_fields_of_the_node_and_is_json() -> None:
    said = why(bmc_address="https://192.0.2.1", paused="x", paused_by="alice")
    assert (said.bmc_address, said.paused_by) == ("https://192.0.2.1", "alice")
    assert msgspec.json.decode(msgspec.json.encode(said))["command"] == "farrier node unpause gpu-1"
