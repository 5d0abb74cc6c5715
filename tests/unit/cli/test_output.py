"""Output: JSON that programs can rely on, and tables in which texts cannot control the reader's terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from farrier.cli.output import printing
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
