"""The model's states for the statuses of a region."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farrier.model.maas import Event, MaasStatus, StatusNumber
from farrier.model.maas_changes import Deploy, PowerAccess
from tests.support.maas import state_of

FAILED = {2, 11, 13, 15, 22}
KNOWN = {
    0: "new",
    1: "commissioning",
    21: "commissioning",
    4: "ready",
    5: "allocated",
    10: "allocated",
    9: "deploying",
    6: "deployed",
    8: "broken",
}


@pytest.mark.parametrize("number", [*StatusNumber, 23, 4711, -1])
def test_every_number_has_a_word_and_one_that_was_never_seen_is_other(number: int) -> None:
    assert state_of(number) == ("failed" if number in FAILED else KNOWN.get(number, "other"))


def test_no_number_means_that_a_machine_is_absent() -> None:
    assert MaasStatus.ABSENT not in {state_of(number) for number in range(-1, 100)}


def event(description: str, created: str = "Sat, 21 Nov. 2026 01:28:04") -> Event:
    return Event(id=1, node="abc123", type="User releasing node", description=description, created=created)


def test_our_own_request_is_known_by_its_comment_and_no_longer_one_is_taken_for_it() -> None:
    ours = event("(admin) - workflow 7/1")
    assert ours.carries("workflow 7/1")
    assert not ours.carries("7/1")
    assert not ours.carries("")
    assert not event("(admin)").carries("workflow 7/1")
    assert not event("(admin) - workflow 7/12").carries("workflow 7/1")


def test_the_time_of_an_event_is_read_and_an_unknown_spelling_is_no_time() -> None:
    assert event("").at == datetime(2026, 11, 21, 1, 28, 4, tzinfo=UTC)
    assert event("", created="2026-11-21").at is None


def test_secrets_and_user_data_are_in_no_representation() -> None:
    power = PowerAccess(address="10.0.0.1", username="root", password="calvin")
    deploy = Deploy(user_data="token: hunter2", comment="c")
    assert "calvin" not in repr(power)
    assert "hunter2" not in repr(deploy)
