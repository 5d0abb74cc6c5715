"""The tests that only `make test-all` runs, and the line in which `make test` reports how many it left out.

`@pytest.mark.full` marks tests whose promises shorter tests prove, too, tests on PostgreSQL 15, and tests of whole
programs. `@pytest.mark.matrix` marks a product of parameters whose cases all prove one promise. Of these cases `make
test` runs just enough that each pair of values of two parameters occurs; with `strength=1`, that each value occurs;
with `keep=3`, three cases that are evenly spread. On PostgreSQL 15 no other cases of a matrix ever run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any

import pytest

# The names of the servers in the ids of cases.
CURRENT, OLDEST = "current", "pg15"

# For each parameter a key that distinguishes its values.
Case = Sequence[Hashable]


def mark(items: list[pytest.Item]) -> None:
    """Mark as `full` the cases of each matrix that are not kept, and remove those that PostgreSQL 15 never runs."""
    matrices: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix") and not item.get_closest_marker("full"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    left_out: set[str] = set()
    for cases in matrices.values():
        marker = cases[0].get_closest_marker("matrix")
        assert marker is not None, "every item here has the marker"
        kept = _kept(cases, **marker.kwargs)
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker(pytest.mark.full)
                left_out.add(case.nodeid.replace(CURRENT, OLDEST))
    items[:] = [item for item in items if OLDEST not in item.nodeid or item.nodeid not in left_out]


def _kept(cases: list[pytest.Item], *, keep: int | None = None, strength: int = 2) -> set[int]:
    if keep is not None:
        return spread(len(cases), keep=keep)
    return cover([_values(case) for case in cases], strength=strength)


def _values(case: pytest.Item) -> Case:
    """The case's entry of each `parametrize` list; the names that one list sets together count as one parameter."""
    params: dict[str, object] = dict(case.callspec.params)  # type: ignore[attr-defined]
    lists = [mark.args[0] for mark in case.iter_markers("parametrize")]
    names = [each.replace(",", " ").split() if isinstance(each, str) else [*each] for each in lists]
    return [tuple(id(params.pop(name)) for name in together) for together in names] + [
        (id(v),) for v in params.values()
    ]


def spread(cases: int, *, keep: int) -> set[int]:
    """The numbers of the `keep` cases to run, out of `cases`: the first, then others at equal distances."""
    return {number * cases // keep for number in range(keep)}


def cover(cases: Sequence[Case], *, strength: int) -> set[int]:
    """Which cases are kept so that each combination of `strength` values that occurs in any of them still occurs."""
    combined = [frozenset(combinations(enumerate(case), strength)) for case in cases]
    missing, kept = set[Any]().union(*combined), set[int]()
    while missing:
        best = max(range(len(cases)), key=lambda number: len(combined[number] & missing))
        kept.add(best)
        missing -= combined[best]
    return kept


class LeftOut:
    """A plugin that counts the cases of `make test-all` that a run leaves out, and prints the count at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._count = 0

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._count += sum(1 for item in items if item.get_closest_marker("full"))

    def pytest_sessionfinish(self) -> None:
        """A worker of xdist hands the count to the process that started it."""
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left_out"] = self._count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Every worker collects the same cases. A crashed worker reports no count.
        self._count = max(self._count, getattr(node, "workeroutput", {}).get("left_out", 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._count:
            terminalreporter.write_line(f"{self._count} cases were left out; `make test-all` runs them, too")
