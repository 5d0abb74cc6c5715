"""Defines targets of benchmarks, their readings, and the figure that is computed from several readings.

The module has only data. A benchmark states its goals, and the runner takes readings. A figure is the median of the
readings, and is compared with the goal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from statistics import median
from typing import TypeAlias

import msgspec

from bench.ground import Ground


class Bound(StrEnum):
    """The direction of a target: a figure must be at least or at most the target."""

    AT_LEAST = ">="
    AT_MOST = "<="


class Goal(msgspec.Struct, frozen=True):
    """A figure to measure, and its target. A figure without a target is only reported, because it depends on the
    machine as much as on the program."""

    name: str
    unit: str
    bound: Bound | None = None
    target: float | None = None

    def is_met_by(self, value: float) -> bool:
        """Return whether the value meets the target. A value equal to the target meets it."""
        if self.target is None:
            return True
        return value >= self.target if self.bound is Bound.AT_LEAST else value <= self.target


class Reading(msgspec.Struct, frozen=True):
    """The value of one run, and its share of the floor's speed (None if there is no floor)."""

    value: float
    of_floor: float | None = None


Readings: TypeAlias = Mapping[str, Reading]  # by the name of the goal
Measure: TypeAlias = Callable[[], Awaitable[Readings]]


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """`open` inserts `nodes` nodes into the database of the ground, and yields a function that takes one reading at
    each call. A `long` benchmark runs only if `--only` names it."""

    name: str
    what: str
    nodes: int
    goals: tuple[Goal, ...]
    open: Callable[[Ground, int], AbstractAsyncContextManager[Measure]]
    long: bool = False


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A goal, and the medians of the values of all runs."""

    benchmark: str
    name: str
    nodes: int
    value: float
    unit: str
    bound: Bound | None
    target: float | None
    met: bool
    of_floor: float | None
    runs: tuple[float, ...]


def judge(benchmark: Benchmark, nodes: int, readings: Sequence[Readings]) -> tuple[Figure, ...]:
    """Return the figures of a benchmark from the readings of all its runs."""
    return tuple(
        _figure(benchmark, nodes, goal, [reading[goal.name] for reading in readings]) for goal in benchmark.goals
    )


def _figure(benchmark: Benchmark, nodes: int, goal: Goal, readings: Sequence[Reading]) -> Figure:
    value = median(reading.value for reading in readings)
    shares = [reading.of_floor for reading in readings if reading.of_floor is not None]
    return Figure(
        benchmark=benchmark.name,
        name=goal.name,
        nodes=nodes,
        value=value,
        unit=goal.unit,
        bound=goal.bound,
        target=goal.target,
        met=goal.is_met_by(value),
        of_floor=median(shares) if shares else None,
        runs=tuple(reading.value for reading in readings),
    )
