"""Failure classes: each has advice, the model's triggers are marked, the back-off grows up to a limit, and the possible
failures of each stage are those that the stage's code names."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from farrier.handlers.node.workflow import stages
from farrier.model.advice.recommended import text
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node import conditions, failures
from farrier.model.node.failures import POSSIBLE, FailureClass
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.stages import Stage
from farrier.wiring.vocabulary import vocabulary

STAGES: list[tuple[WorkflowKind, Stage, Callable[..., Any]]] = [
    *((WorkflowKind.ONBOARDING, stage, run) for stage, run in stages.ONBOARDING.items()),
    *((WorkflowKind.DECOMMISSION, stage, run) for stage, run in stages.DECOMMISSION.items()),
]


def test_the_manual_intervention_triggers_are_the_eight_of_the_model() -> None:
    assert {str(failure) for failure in failures.MANUAL} == {
        "discovery_conflict",
        "boss_disk_not_found",
        "pxe_interface_unfixable",
        "machine_deleted_upstream",
        "datasource_failed_repeatedly",
        "hardware_sync_failed_repeatedly",
        "ssh_seed_failed_repeatedly",
        "state_disagreement",
    }


def test_unsafe_classes_are_four_and_never_retried_by_themselves() -> None:
    assert {str(failure) for failure in failures.UNSAFE} == {
        "discovery_conflict",
        "state_disagreement",
        "identity_mismatch",
        "identity_taken",
    }
    assert not any(failures.FAILURES[failure].retryable for failure in failures.UNSAFE | failures.MANUAL)


def test_every_failure_class_and_condition_has_one_line_of_advice() -> None:
    assert set(failures.FAILURES) == set(FailureClass)
    assert set(failures.BMC_ADVICE) == set(BmcFailure)
    assert list(failures.CONDITION_ADVICE) == [known.name for known in conditions.KNOWN]
    lines = [
        *(advice.action for advice in failures.FAILURES.values()),
        *map(text, failures.BMC_ADVICE.values()),
        *map(text, failures.CONDITION_ADVICE.values()),
    ]
    for line in lines:
        assert 10 <= len(line) <= 200, line
        assert "\n" not in line
        assert "|" not in line  # would break a cell of the generated tables


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(-1, 30), (0, 30), (1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900), (10**9, 900)],
)
def test_back_off_doubles_from_30_seconds_to_15_minutes(attempt: int, seconds: int) -> None:
    assert failures.stage_backoff(attempt) == timedelta(seconds=seconds)


def test_a_retryable_failure_needs_an_operator_after_the_last_attempt_and_another_at_once() -> None:
    attempts = range(1, failures.MAX_ATTEMPTS + 1)
    needs = [failures.needs_operator(FailureClass.TIMEOUT, attempt=n) for n in attempts]
    assert needs == [False, False, False, False, True]
    assert failures.needs_operator(FailureClass.BOSS_DISK_NOT_FOUND, attempt=1)


def named_in(source: str) -> Iterator[FailureClass]:
    """The failure classes that a module uses."""
    for call in ast.walk(ast.parse(source)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Failed"):
            continue
        for keyword in call.keywords:
            if keyword.arg == "failure":
                for each in ast.walk(keyword.value):
                    if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "FailureClass":
                        yield FailureClass[each.attr]


@pytest.mark.parametrize(("kind", "stage", "run"), STAGES, ids=lambda value: str(value) if not callable(value) else "")
def test_every_failure_that_the_code_of_a_stage_names_is_declared_for_the_stage(
    kind: WorkflowKind, stage: Stage, run: Callable[..., Any]
) -> None:
    module = inspect.getmodule(run)
    assert module is not None
    assert set(named_in(inspect.getsource(module))) <= POSSIBLE[kind][stage]


def test_every_stage_of_both_workflows_is_declared_and_can_time_out() -> None:
    assert {(kind, stage) for kind, stage, _ in STAGES} == {(kind, s) for kind, each in POSSIBLE.items() for s in each}
    assert all(FailureClass.TIMEOUT in failures for each in POSSIBLE.values() for failures in each.values())


def test_every_failure_class_is_possible_at_some_stage() -> None:
    somewhere = {failure for each in POSSIBLE.values() for failures in each.values() for failure in failures}
    assert somewhere == {*FailureClass}


def test_a_failure_that_is_possible_at_one_stage_has_a_series_only_there() -> None:
    (metric,) = vocabulary().kinds["node"].metrics
    disks = [labels for labels in metric.series if labels[2] == FailureClass.BOSS_DISK_NOT_FOUND]
    assert disks == [("onboarding", "configure_storage", "boss_disk_not_found")]
    assert len(metric.series) == len(set(metric.series)) < 300
    every = sum(len(stages) for stages in POSSIBLE.values()) * len(FailureClass)
    assert len(metric.series) < every / 2
