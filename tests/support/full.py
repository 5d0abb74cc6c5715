"""What only `make test-all` runs: all but a few cases of each test that is marked as a matrix.

`@pytest.mark.matrix(keep=3)` is for a product whose cases prove one promise over and over; `make test` runs three of
them, evenly spread. PostgreSQL 15 and single tests are marked `full` where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark as `full` what of each matrix is not kept."""
    matrices: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix") and not item.get_closest_marker("full"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    for cases in matrices.values():
        marker = cases[0].get_closest_marker("matrix")
        assert marker is not None, "only items with it are here"
        kept = spread(len(cases), **marker.kwargs)
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker(pytest.mark.full)


def spread(cases: int, *, keep: int) -> set[int]:
    """Which of so many cases are kept: the first, and the others at equal distances."""
    return {number * cases // keep for number in range(keep)}
