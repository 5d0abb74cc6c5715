"""The behaviour of BMCs that Ironic and Metal3 test in their own suites, tested here for farrier.

The letters of the ids: A enroll and verify, B adopt, C delete and power (Ironic); D unmanaged and credentials,
E externally provisioned, F pause and back-off (Metal3). Missing numbers are behaviour that was not compared.
"""

from __future__ import annotations

import pytest

from tests.support import acceptance_of_ironic, acceptance_of_metal3, pg
from tests.support.acceptance import NOT_HERE, ROWS, OnDatabase

SECTIONS = (acceptance_of_ironic, acceptance_of_metal3)
"""Importing these modules fills `ROWS`."""

NUMBERS = {
    "A": (1, 3, 4, 5, 6, 7, 8, 9, 13, 14),
    "B": (1, 2, 3, 6, 8, 9, 10, 11, 13, 14, 16),
    "C": (*range(1, 10), 11, 12, 14, 17, 18, 20, 22, 23, 24, 25, 26, 27, 28, 30, 31, 32, 33, 34),
    "D": (*range(1, 6), 7, 8, 9, 10, *range(13, 21), 22, 23, *range(25, 31)),
    "E": (*range(1, 15),),
    "F": (*range(1, 6), 7, 8, 9, 11, 12, 13, 14, 20, 21, 24, 27),
}
EVERY_ID = {f"{letter}{number:02}" for letter, numbers in NUMBERS.items() for number in numbers}


def scenarios() -> dict[str, OnDatabase]:
    """Each scenario once; its key has the ids of all rows that it proves."""
    rows: dict[OnDatabase, list[str]] = {}
    for id_, row in sorted(ROWS.items()):
        rows.setdefault(row.run, []).append(id_)
    return {" ".join(ids): run for run, ids in rows.items()}


@pytest.mark.parametrize("run", scenarios().values(), ids=scenarios())
async def test_each_scenario_of_the_comparison_holds(db: pg.Database, run: OnDatabase) -> None:
    await run(db)


def test_every_row_has_a_scenario_or_a_reason() -> None:
    assert ROWS.keys() | NOT_HERE.keys() == EVERY_ID
    assert not ROWS.keys() & NOT_HERE.keys()


def test_every_row_that_claims_to_be_better_says_why() -> None:
    better = [row.better for row in ROWS.values() if row.better]
    assert better and all(len(why.split()) >= 3 for why in better)
