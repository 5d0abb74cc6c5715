"""The time up to which history is complete, computed from the open transactions that write history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from farrier.io.queries.completeness import Horizon

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_horizon_is_three_seconds_behind_if_no_transaction_writes() -> None:
    horizon = Horizon()
    assert horizon.advance(at(0), ()) == at(-3)
    assert horizon.advance(at(1), ()) == at(-2)


def test_the_horizon_stays_before_a_transaction_that_still_writes() -> None:
    horizon = Horizon()
    horizon.advance(at(0), ())
    for second in (1, 50, 500):
        assert horizon.advance(at(second), ["1/7"]) == at(-3), "it was not there at 0, so it began after that"
    assert horizon.advance(at(501), ["1/8"]) == at(497)
    assert horizon.advance(at(502), ()) == at(499)


def test_the_horizon_treats_a_transaction_found_at_the_start_as_a_minute_old() -> None:
    horizon = Horizon()
    assert horizon.advance(at(0), ["1/7"]) == at(-63)
    assert horizon.advance(at(5), ["1/7", "1/8"]) == at(-63)
    assert horizon.advance(at(6), ["1/8"]) == at(-3)
