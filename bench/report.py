"""Prints the figures as a table for people, or as JSON for programs.

The report goes to standard output, and progress to standard error, so that a pipe gets only the report.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from bench.figures import Benchmark, Figure, Goal
from bench.yardstick import Speed, Yardstick

_WIDTH = 160


class Report(msgspec.Struct, frozen=True):
    """The figures of one invocation, and the machine and server on which they were taken."""

    figures: Sequence[Figure]
    yardstick: Yardstick
    postgresql: Mapping[str, str]
    python: str
    cpus: int


def report(figures: Sequence[Figure], yardstick: Yardstick, postgresql: Mapping[str, str]) -> Report:
    """Return the figures with the machine and the server on which they were taken."""
    return Report(figures, yardstick, postgresql, platform.python_version(), len(os.sched_getaffinity(0)))


def show_json(report: Report) -> None:
    """Print one JSON object."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def show_table(report: Report) -> None:
    """Print a table with a row for each figure."""
    table = Table("benchmark", "figure", "nodes", "value", "target", "of the floor", "runs", "")
    for figure in report.figures:
        table.add_row(
            figure.benchmark,
            figure.name,
            f"{figure.nodes:,}",
            _quantity(figure.value, figure.unit),
            _target(figure),
            "" if figure.of_floor is None else f"{figure.of_floor:.0%}",
            "  ".join(_number(run) for run in figure.runs),
            "" if figure.target is None else "[green]met[/]" if figure.met else "[red]missed[/]",
        )
    console = _console()
    console.print(table)
    machine = report.yardstick
    for when, speed in (("before", machine.before), ("after", machine.after)):
        beside = _beside(speed, machine.where_the_targets_were_set)
        console.print(f"this machine, {when}: raw SQL {beside}", highlight=False)
    server = ", ".join(f"{name} {value}" for name, value in report.postgresql.items())
    console.print(
        f"PostgreSQL: {server}; Python {report.python}; {report.cpus} CPUs; medians of the runs", highlight=False
    )


def show_list(benchmarks: Sequence[Benchmark]) -> None:
    """Print the names of benchmarks, what they measure, and their targets."""
    table = Table("benchmark", "measures", "nodes", "targets")
    for benchmark in benchmarks:
        goals = "\n".join(f"{goal.name} {_target(goal)}".rstrip() for goal in benchmark.goals)
        table.add_row(benchmark.name, benchmark.what, f"{benchmark.nodes:,}", goals)
    _console().print(table)


def _target(of: Goal | Figure) -> str:
    return "" if of.target is None else f"{of.bound} {_quantity(of.target, of.unit)}"


def _beside(here: Speed, there: Speed) -> str:
    """Return a text about the speed of this machine, compared with the machine on which the targets were set."""
    rate = here.transitions_per_second / there.transitions_per_second
    haste = there.reaction_p50_ms / here.reaction_p50_ms
    return (
        f"{_number(here.transitions_per_second)} transitions/s ({_number(there.transitions_per_second)} where the "
        f"targets were set: {rate:.0%} of its speed), "
        f"{_number(here.reaction_p50_ms)} ms reaction ({_number(there.reaction_p50_ms)} ms: {haste:.0%})"
    )


def _console() -> Console:
    """Return a console as wide as the terminal. A file or a pipe has no width, so lines are not broken there."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH)


def _quantity(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
