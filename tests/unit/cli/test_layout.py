"""Tables and facts fit a terminal of any width, and show all of their content."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from farrier.cli.output import layout

WORDS = st.lists(st.text(alphabet="abc-宿", min_size=1, max_size=30), max_size=4).map(" ".join)
HEADINGS = ("NAME", "STATE", "FOR", "", "NOTE")


def texts(*cells: str) -> list[Text]:
    return [Text(cell) for cell in cells]


def plain(lines: object) -> list[str]:
    assert not isinstance(lines, str)
    return [line.plain for line in lines]  # type: ignore[attr-defined]


def packed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


@settings(deadline=None)
@given(st.lists(st.tuples(*[WORDS] * len(HEADINGS)), min_size=1, max_size=5), st.integers(8, 120))
def test_no_line_is_wider_than_the_terminal_and_no_text_is_missing(rows: list[tuple[str, ...]], width: int) -> None:
    lines = plain(layout.Table(HEADINGS).lines([texts(*row) for row in rows], width))
    assert all(Text(line).cell_len <= width for line in lines)
    shown = packed(lines)
    for row in rows:
        for cell in row:
            assert "".join(cell.split()) in shown


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=5), st.integers(8, 120))
def test_facts_are_not_wider_than_the_terminal_and_complete(pairs: list[tuple[str, str]], width: int) -> None:
    lines = plain(layout.facts([(name, Text(value)) for name, value in pairs], width))
    assert all(Text(line).cell_len <= width for line in lines)
    assert sorted(packed(lines)) == sorted(packed([f"{name}{value}" for name, value in pairs]))


ROWS = [
    texts("gpu-1", "active", "3m", "", ""),
    texts("gpu-2", "quarantined", "2d 3h", "", "waits for an operator: boss_disk_not_found"),
]


@pytest.mark.parametrize("value", ["short", "a reason that does not fit into one line of this terminal"])
def test_only_the_name_of_a_fact_is_dim(value: str) -> None:
    for line in layout.facts([("paused", Text(value))], 40):
        dim = "".join(line.plain[span.start : span.end] for span in line.spans if span.style == "dim")
        assert (line.style, dim) in {("", "paused"), ("", "")}, line.plain


def test_a_column_with_few_values_is_put_below_the_rows_that_have_one() -> None:
    assert plain(layout.Table(HEADINGS).lines(ROWS, 40)) == [
        "NAME   STATE        FOR",
        "gpu-1  active       3m",
        "gpu-2  quarantined  2d 3h",
        "    note: waits for an operator:",
        "    boss_disk_not_found",
    ]


def test_a_table_is_printed_in_columns_if_it_fits_or_goes_into_a_pipe() -> None:
    expected = [
        "NAME   STATE        FOR      NOTE",
        "gpu-1  active       3m",
        "gpu-2  quarantined  2d 3h    waits for an operator: boss_disk_not_found",
    ]
    for width in (80, None):
        assert plain(layout.Table(HEADINGS).lines(ROWS, width)) == expected


@pytest.mark.parametrize(("width", "beside"), [(23, "NAME   STATE   FOR"), (16, "NAME   STATE"), (8, "NAME")])
def test_the_columns_that_a_caller_names_are_put_below_first(width: int, beside: str) -> None:
    lines = plain(layout.Table(HEADINGS, below=("NOTE", "FOR")).lines(ROWS[:1], width))
    assert lines[0] == beside


def test_later_rows_are_aligned_with_the_headings_of_earlier_rows() -> None:
    table = layout.Table(HEADINGS)
    wide = plain(table.lines(ROWS, 80))
    assert plain(table.lines(ROWS[:1], 80)) == wide[1:2]
