"""The timeline of a resource: bars of its layers, and the stages of a workflow with attempts and waits."""

from __future__ import annotations

from datetime import timedelta

from farrier.model.node import clocks
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Skipped
from farrier.model.views import timeline
from farrier.model.views.history import HistoryEntry
from farrier.model.views.timeline import TimelineRow
from tests.unit.model.test_clocks import MINUTE, NOW, view, workflow

BEGAN = NOW - 60 * MINUTE


def change(version: int, after: int, layer: str, source: str | None, target: str, reason: str = "") -> HistoryEntry:
    """A change `after` minutes after the beginning."""
    return HistoryEntry(
        kind="node",
        id=1,
        version=version,
        layer=layer,
        name="gpu-1",
        source_state=source,
        target_state=target,
        at=BEGAN + after * MINUTE,
        seconds_in_source=None,
        cause="stage: x",
        requested_by=None,
        reason=reason,
        source="x.py:1",
        controller="c",
    )


# A deployment: its first stage is done, the second failed once, was retried after a wait, and still runs.
CHANGES = (
    change(1, 0, "onboarding", None, "pending"),
    change(2, 5, "onboarding", "pending", "running"),
    change(2, 5, "onboarding_stage", None, "load_site_config"),
    change(3, 10, "onboarding_stage", "load_site_config", "resolve_power_credentials", "the site has its settings"),
    change(4, 20, "onboarding", "running", "failed_retryable", "timeout: no answer"),
    change(5, 25, "onboarding", "failed_retryable", "running", "another attempt"),
)
NEWEST_FIRST = CHANGES[::-1]


def stages(*changes: HistoryEntry, **fields: object) -> dict[str, TimelineRow]:
    """The stages of a deployment that began an hour ago."""
    live = workflow(mode="deploy", stage=None, created_at=BEGAN, **fields)
    return {row.name: row for row in timeline.of_workflow(live, changes[::-1], (), NOW).stages}


def bars(row: TimelineRow) -> list[tuple[str, timedelta, str]]:
    return [(bar.state, bar.lasts, bar.result) for bar in row.bars]


def test_a_stage_that_is_done_has_one_bar_and_the_reason_of_its_result() -> None:
    row = stages(*CHANGES)["load_site_config"]
    assert bars(row) == [("done", 5 * MINUTE, "the site has its settings")]
    assert (row.state, row.took, row.attempts, row.note) == ("done", 5 * MINUTE, 1, "the site has its settings")


def test_a_retried_stage_shows_each_attempt_and_the_wait_between_them() -> None:
    row = stages(*CHANGES)["resolve_power_credentials"]
    assert bars(row) == [
        ("failed", 10 * MINUTE, "timeout: no answer"),
        ("failed_retryable", 5 * MINUTE, "another attempt"),
        ("running", 35 * MINUTE, ""),
    ]
    assert (row.state, row.took, row.waited, row.attempts) == ("running", 50 * MINUTE, 5 * MINUTE, 2)


def test_stages_of_the_path_that_have_not_begun_are_shown_in_order_as_to_come() -> None:
    found = stages(*CHANGES)
    assert list(found)[:3] == ["load_site_config", "resolve_power_credentials", "create_or_find_in_maas"]
    assert list(found)[-1] == "wait_for_agent_enrollment"
    assert found["wait_for_deployed"] == TimelineRow(name="wait_for_deployed", state="to come")


def test_a_workflow_that_ended_has_no_stage_to_come_and_its_last_attempt_has_a_result() -> None:
    ended = change(6, 40, "onboarding", "running", "completed", "onboarding completed")
    found = stages(*CHANGES, ended, status="completed", ended_at=ended.at)
    assert bars(found["resolve_power_credentials"])[-1] == ("done", 15 * MINUTE, "onboarding completed")
    assert found["wait_for_deployed"].state == ""


def test_a_stage_outside_of_the_path_is_shown_after_its_predecessor() -> None:
    detour = change(6, 30, "onboarding_stage", "resolve_power_credentials", "classify_deploy_failure")
    assert list(stages(*CHANGES, detour))[2] == "classify_deploy_failure"


def test_a_skipped_stage_says_why() -> None:
    row = stages(*CHANGES, skipped=(Skipped("load_site_config", "it is configured"),))["load_site_config"]
    assert (row.state, row.note) == ("skipped", "it is configured")


def test_a_workflow_of_an_unknown_mode_shows_the_stages_that_ran() -> None:
    live = workflow(mode="teleport", created_at=BEGAN)
    shown = timeline.of_workflow(live, NEWEST_FIRST, (), NOW)
    assert [row.name for row in shown.stages] == ["load_site_config", "resolve_power_credentials"]


def test_layers_without_a_change_keep_their_state_for_the_whole_time() -> None:
    node = view(status_entered_at=BEGAN - MINUTE, management_entered_at=BEGAN - MINUTE)
    running = clocks.running(node, NOW, Limits())
    live = workflow(mode="deploy", created_at=BEGAN)
    shown = timeline.of_workflow(live, NEWEST_FIRST, running, NOW)
    assert {row.name: [bar.state for bar in row.bars] for row in shown.layers} == {
        "status": ["active"],
        "management": ["unmanaged"],
        "onboarding": ["pending", "running", "failed_retryable", "running"],
    }
    assert all(row.took == 60 * MINUTE for row in shown.layers)


def test_the_first_bar_is_the_state_before_the_first_change() -> None:
    moved = change(9, 15, "status", "enrolling", "active", "healthy")
    shown = timeline.of_workflow(workflow(created_at=BEGAN), (moved,), (), NOW)
    (status,) = shown.layers
    assert bars(status) == [("enrolling", 15 * MINUTE, "healthy"), ("active", 45 * MINUTE, "")]


def test_changes_before_the_workflow_and_of_details_are_left_out() -> None:
    before = change(0, -5, "status", "offline", "active")
    detail = change(9, 5, "details.rack", "r1", "r2")
    shown = timeline.of_workflow(workflow(created_at=BEGAN), (detail, before), (), NOW)
    assert shown.layers == ()


def test_places_are_percentages_of_the_time_and_ticks_are_round() -> None:
    shown = timeline.of_changes(NEWEST_FIRST, (), NOW)
    assert shown is not None
    assert [shown.place(BEGAN + after * MINUTE) for after in (-1, 0, 15, 60, 61)] == [0, 0, 25, 100, 100]
    assert list(shown.ticks()) == [(50.0, "30m"), (100.0, "1h")]
    assert timeline.of_changes((), (), NOW) is None


def test_a_timeline_without_length_has_no_ticks_and_one_place() -> None:
    shown = timeline.of_changes(CHANGES[:1], (), BEGAN)
    assert shown is not None
    assert (shown.place(NOW), list(shown.ticks())) == (0, [])
