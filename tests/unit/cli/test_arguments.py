"""Arguments with a syntax of their own are parsed as documented, or refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer

from farrier.cli.options import arguments


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert arguments.pairs(["reason=a=b c", "empty="]) == {"reason": "a=b c", "empty": ""}


@pytest.mark.parametrize(
    ("given", "text"),
    [(["reason"], "'reason'"), (["=x"], "'=x'"), (["force=true", "force=false"], "force is given twice")],
)
def test_a_text_that_is_no_pair_and_a_repeated_name_are_refused(given: list[str], text: str) -> None:
    with pytest.raises(typer.BadParameter, match=text):
        arguments.pairs(given)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90m", timedelta(minutes=90)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_an_age_or_a_moment_is_parsed(text: str, meant: timedelta | datetime) -> None:
    assert arguments.age_or_moment("--since", text) == meant


@pytest.mark.parametrize("text", ["yesterday", "-5m", "", "2026-13-01T00:00:00Z", "99999999d"])
def test_a_text_that_is_neither_an_age_nor_a_moment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected an age") as refused:
        arguments.age_or_moment("--since", text)
    assert refused.value.param_hint == "--since"


def test_a_timeout_without_a_unit_is_in_seconds_and_another_unit_is_refused_with_the_expected_form() -> None:
    assert arguments.patience("--timeout", "1h 30m") == timedelta(minutes=90)
    assert arguments.patience("--timeout", "60") == timedelta(seconds=60)
    with pytest.raises(typer.BadParameter, match="30s, 5m or 1h 30m") as refused:
        arguments.patience("--timeout", "60 min")
    assert refused.value.param_hint == "--timeout"


@pytest.mark.parametrize(
    ("text", "bound"),
    [("59s", "at least 1m, got '59s'"), ("25h", "at most 1d, got '25h'"), ("36501d", "at most 36500d")],
)
def test_a_duration_outside_of_the_bounds_is_refused_with_the_bound(text: str, bound: str) -> None:
    minute, day = timedelta(minutes=1), timedelta(days=1)
    assert [arguments.patience("--for", each, least=minute, most=day) for each in ("1m", "24h")] == [minute, day]
    with pytest.raises(typer.BadParameter, match=bound):
        arguments.patience("--for", text, least=minute, most=day)
