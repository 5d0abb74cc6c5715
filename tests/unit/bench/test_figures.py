"""Readings become figures, which are compared with their targets."""

from __future__ import annotations

import pytest

from bench.__main__ import BENCHMARKS
from bench.figures import Benchmark, Bound, Goal, Reading, judge


def benchmark_with(goal: Goal) -> Benchmark:
    return Benchmark(name="made", what="made up", nodes=1, goals=(goal,), open=BENCHMARKS[0].open)


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        (Bound.AT_LEAST, 99.9, False),
        (Bound.AT_LEAST, 100.0, True),
        (Bound.AT_LEAST, 100.1, True),
        (Bound.AT_MOST, 99.9, True),
        (Bound.AT_MOST, 100.0, True),
        (Bound.AT_MOST, 100.1, False),
    ],
)
def test_a_figure_is_met_on_its_side_of_the_target_and_at_it(bound: Bound, value: float, met: bool) -> None:
    goal = Goal("figure", "", bound, 100.0)
    (figure,) = judge(benchmark_with(goal), 1, [{"figure": Reading(value)}])
    assert figure.met is met


def test_a_figure_without_a_target_is_reported_without_a_result() -> None:
    (figure,) = judge(benchmark_with(Goal("figure", "s")), 1, [{"figure": Reading(1e9)}])
    assert (figure.value, figure.target, figure.met) == (1e9, None, True)


def test_a_figure_is_the_median_so_that_one_disturbed_run_does_not_decide() -> None:
    goal = Goal("figure", "/s", Bound.AT_LEAST, 10.0)
    readings = [{"figure": Reading(value, value / 100)} for value in (12.0, 1.0, 11.0)]
    (figure,) = judge(benchmark_with(goal), 1, readings)
    assert (figure.value, figure.of_floor, figure.met) == (11.0, 0.11, True)
    assert figure.runs == (12.0, 1.0, 11.0)


def test_a_figure_without_a_floor_has_no_share_of_it() -> None:
    goal = Goal("figure", "MB", Bound.AT_MOST, 10.0)
    (figure,) = judge(benchmark_with(goal), 1, [{"figure": Reading(1.0)}])
    assert figure.of_floor is None


def test_every_benchmark_and_every_figure_of_a_benchmark_has_a_unique_name() -> None:
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert len(set(names)) == len(names)
    for benchmark in BENCHMARKS:
        goals = [goal.name for goal in benchmark.goals]
        assert goals and len(set(goals)) == len(goals)
