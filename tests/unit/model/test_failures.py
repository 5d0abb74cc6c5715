"""Failure classes: each has advice, the model's triggers are marked, and the back-off grows up to a limit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farrier.model.advice.recommended import text
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node import conditions, failures
from farrier.model.node.failures import FailureClass


def test_the_manual_intervention_triggers_are_the_eight_of_the_model() -> None:
    assert {str(failure) for failure in failures.MANUAL} == {
        "discovery_conflict",
        "boss_disk_not_found",
        "pxe_interface_unfixable",
        "machine_deleted_upstream",
        "datasource_failed_repeatedly",
        "hardware_sync_failed_repeatedly",
        "ssh_seed_failed_repeatedly",
        "state_disagreement",
    }


def test_unsafe_classes_are_four_and_never_retried_by_themselves() -> None:
    assert {str(failure) for failure in failures.UNSAFE} == {
        "discovery_conflict",
        "state_disagreement",
        "identity_mismatch",
        "identity_taken",
    }
    assert not any(failures.FAILURES[failure].retryable for failure in failures.UNSAFE | failures.MANUAL)


def test_every_failure_class_and_condition_has_one_line_of_advice() -> None:
    assert set(failures.FAILURES) == set(FailureClass)
    assert set(failures.BMC_ADVICE) == set(BmcFailure)
    assert list(failures.CONDITION_ADVICE) == [known.name for known in conditions.KNOWN]
    lines = [
        *(advice.action for advice in failures.FAILURES.values()),
        *map(text, failures.BMC_ADVICE.values()),
        *map(text, failures.CONDITION_ADVICE.values()),
    ]
    for line in lines:
        assert 10 <= len(line) <= 200, line
        assert "\n" not in line
        assert "|" not in line  # would break a cell of the generated tables


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(0, 30), (1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900), (10**9, 900)],
)
def test_back_off_doubles_from_30_seconds_to_15_minutes(attempt: int, seconds: int) -> None:
    assert failures.stage_backoff(attempt) == timedelta(seconds=seconds)


@given(st.integers(), st.integers(min_value=0, max_value=2**63))
def test_back_off_never_shrinks_and_stays_in_its_bounds(attempt: int, more: int) -> None:
    sooner, later = failures.stage_backoff(attempt), failures.stage_backoff(attempt + more)
    assert failures.BACKOFF_FIRST <= sooner <= later <= failures.BACKOFF_MAX


def test_a_retryable_failure_needs_an_operator_after_the_last_attempt_and_another_at_once() -> None:
    attempts = range(1, failures.MAX_ATTEMPTS + 1)
    needs = [failures.needs_operator(FailureClass.TIMEOUT, attempt=n) for n in attempts]
    assert needs == [False, False, False, False, True]
    assert failures.needs_operator(FailureClass.BOSS_DISK_NOT_FOUND, attempt=1)
