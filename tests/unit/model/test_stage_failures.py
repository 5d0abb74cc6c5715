"""The possible failures of each stage are those that the stage's code names."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from farrier.handlers.node.workflow import stages
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.stage_failures import ONLY_AT, POSSIBLE
from farrier.model.node.stages import Stage
from farrier.wiring.vocabulary import vocabulary

STAGES: list[tuple[WorkflowKind, Stage, Callable[..., Any]]] = [
    *((WorkflowKind.ONBOARDING, stage, run) for stage, run in stages.ONBOARDING.items()),
    *((WorkflowKind.DECOMMISSION, stage, run) for stage, run in stages.DECOMMISSION.items()),
]


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
    assert all(ONLY_AT[kind] for kind in WorkflowKind)
