"""Durations as people write and read them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farrier.model import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("72h", 259_200),
        ("1h 30m", 5_400),
        ("1d2h", 93_600),
        (" 0s ", 0),
        ("60", 60),
        (" 5 ", 5),
    ],
)
def test_parse(text: str, seconds: int) -> None:
    assert duration.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "5 5", "5m 5", "m", "-5m", "5 min", "1.5h", "5m,", "5M", "36501d", f"{10**20}d"]
)
def test_parse_refuses_other_texts_and_quotes_them(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration") as caught:
        duration.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=900), "0s"),
        (timedelta(milliseconds=-900), "0s"),
        (timedelta(seconds=30), "30s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=4, minutes=12, seconds=59), "4h 12m"),
        (timedelta(hours=4, seconds=59), "4h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=400, hours=3), "400d 3h"),
        (timedelta(minutes=-5), "-5m"),
    ],
)
def test_human_shows_the_two_largest_units(given_: timedelta, text: str) -> None:
    assert duration.human(given_) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_parse_reads_the_output_of_human_with_an_error_of_at_most_one_unit(value: timedelta) -> None:
    read = duration.parse(duration.human(value))
    assert read <= value
    assert value - read < max(timedelta(seconds=1), value / 24)
