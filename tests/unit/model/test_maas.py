"""The model's states for the statuses of a region."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farrier.model.maas.changes import Deploy, PowerAccess
from farrier.model.maas.reading import Event, MaasStatus, StatusNumber
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
def test_every_status_number_has_a_state_and_an_unknown_number_is_unknown(number: int) -> None:
    known = "other" if number in [*StatusNumber] else "unknown"
    assert state_of(number) == ("failed" if number in FAILED else KNOWN.get(number, known))


def test_no_status_number_means_absent() -> None:
    assert MaasStatus.ABSENT not in {state_of(number) for number in range(-1, 100)}


def event(description: str, created: str = "Sat, 21 Nov. 2026 01:28:04") -> Event:
    return Event(id=1, node="abc123", type="User releasing node", description=description, created=created)


def test_a_request_of_farrier_is_recognised_by_exactly_its_comment() -> None:
    ours = event("(admin) - workflow 7/1")
    assert ours.carries("workflow 7/1")
    assert not ours.carries("7/1")
    assert not ours.carries("")
    assert not event("(admin)").carries("workflow 7/1")
    assert not event("(admin) - workflow 7/12").carries("workflow 7/1")


def test_the_time_of_an_event_is_parsed_and_an_unknown_format_gives_no_time() -> None:
    assert event("").at == datetime(2026, 11, 21, 1, 28, 4, tzinfo=UTC)
    assert event("", created="2026-11-21").at is None


def test_no_repr_contains_secrets_or_user_data() -> None:
    power = PowerAccess(address="10.0.0.1", username="root", password="calvin")
    deploy = Deploy(user_data="token: hunter2", comment="c")
    assert "calvin" not in repr(power)
    assert "hunter2" not in repr(deploy)
