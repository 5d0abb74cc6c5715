"""Output: JSON that programs can rely on, and tables that fit a terminal of any width, show all of their content, and
in which texts cannot control the reader's terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from farrier.cli.output import layout, printing
from farrier.model.node.clocks import StateClock

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


async def in_pages(*pages: list[object]) -> AsyncIterator[list[object]]:
    for page in pages:
        yield page


def test_durations_are_seconds_at_any_depth_and_times_are_iso_8601() -> None:
    clock = StateClock(layer="status", state="offline", since=AT, limit=timedelta(minutes=1.5), above=None)
    assert printing.plain({"clocks": (clock,)}) == {
        "clocks": [
            {
                "layer": "status",
                "state": "offline",
                "since": "2026-01-02T03:04:05.000678Z",
                "limit": 90.0,
                "above": None,
                "note": "",
            }
        ]
    }


@pytest.mark.parametrize("pages", [[], [[]], [[1]], [[], [{"a": 1}, 2], [], [{"b": timedelta(seconds=2)}]]])
async def test_an_array_that_is_printed_page_by_page_is_one_array(
    pages: list[list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    await printing.json_array(in_pages(*pages))
    expected = [printing.plain(value) for page in pages for value in page]
    assert msgspec.json.decode(capsys.readouterr().out) == expected


def test_columns_in_a_pipe_are_aligned_by_display_width_without_trailing_blanks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.table(("A", "B"), [("\u5bbf\u820e", "1"), ("x", "")])  # two characters that take four columns
    assert capsys.readouterr().out == "A     B\n\u5bbf\u820e  1\nx\n"


def test_control_characters_and_markup_in_texts_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(("NAME",), [("\x1b[2J[red]x\r\n\u202e",)])
    printed = capsys.readouterr().out
    assert "[2J[red]x" in printed
    assert not {"\x1b", "\r", "\u202e"} & set(printed)
    assert len(printed.splitlines()) == 2


def test_a_table_without_rows_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    printing.table(("NAME",), [])
    assert capsys.readouterr().out == ""


def test_facts_without_a_value_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printing.facts([("a", "1"), ("b", None), ("c", "")])
    assert capsys.readouterr().out.split() == ["a", "1"]


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
