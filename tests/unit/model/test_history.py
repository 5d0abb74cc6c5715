"""Keys and bounds of history: printed, parsed back, and refused when malformed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from farrier.model.views.history import HistoryFilter, HistoryKey, parse_bound, parse_key


@pytest.mark.parametrize(
    "at", [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC)]
)
def test_a_key_that_is_printed_and_parsed_is_unchanged(at: datetime) -> None:
    key = HistoryKey(at, 7, 8, "maas_region", "onboarding_stage")
    assert parse_key(key.text) == key


def test_a_key_has_the_same_moment_in_any_time_zone() -> None:
    east = HistoryKey(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 7, 8, "node", "status")
    assert parse_key(east.text).at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1.2.3", "1.2.3.node", "1.2.3.node.", "1.2.3..status", "-1.2.3.node.status", "1.²3.3.node.status"),
        *("9223372036854775808.2.3.node.status", "1.9223372036854775808.3.node.status"),
        "9223372036854775807.2.3.node.status",
    ],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key"):
        parse_key(text)


def test_a_bound_is_an_age_or_a_time() -> None:
    assert parse_bound("2h") == timedelta(hours=2)
    assert (
        parse_bound("2026-01-31T12:00:00Z")
        == parse_bound("2026-01-31T12:00:00")
        == datetime(2026, 1, 31, 12, tzinfo=UTC)
    )
    with pytest.raises(ValueError, match="30m, 2h, 7d"):
        parse_bound("yesterday")


@pytest.mark.parametrize(
    ("wanted", "narrow"),
    [
        (HistoryFilter(), False),
        (HistoryFilter(resource=("node", "gpu-1")), False),
        (HistoryFilter(since=timedelta(1)), False),
        (HistoryFilter(resource=("node", "gpu-1"), since=timedelta(1)), True),
        (HistoryFilter(layers=("status",)), True),
        (HistoryFilter(reason="x", until=timedelta(1)), True),
    ],
)
def test_a_filter_is_narrow_if_the_index_also_returns_other_changes(wanted: HistoryFilter, narrow: bool) -> None:
    assert wanted.is_narrow is narrow
