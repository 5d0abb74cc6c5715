"""The decisions of a segment's run, from the snapshot and the time alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farrier.handlers.network_segment.handler import SEGMENT_KIND, SegmentHandler
from farrier.handlers.network_segment.prefixes import parse_prefix, room
from farrier.model.kinds.resource import Answer, Pending
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.model.network.segment import SPEC, Closing, Growing, NetworkSegment, SegmentState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PERIOD = timedelta(minutes=5)
HANDLER = SegmentHandler(PERIOD)

states = pytest.mark.parametrize("state", SegmentState)


def segment(state: SegmentState = SegmentState.READY, **more: Any) -> NetworkSegment:
    base = NetworkSegment(
        id=1,
        version=1,
        name="lan",
        site="ams",
        state=state,
        state_entered_at=NOW - timedelta(hours=1),
        created_at=NOW - timedelta(hours=2),
        prefixes=("10.0.0.0/24",),
        mtu=1500,
    )
    return msgspec.structs.replace(base, **more)


def asked(id_: int, action: str, **params: object) -> Pending:
    return Pending(id=id_, action=action, params=params, created_at=NOW)


def draining(**more: Any) -> NetworkSegment:
    return segment(SegmentState.DRAINING, **more)


@states
def test_every_decision_is_an_outcome_and_takes_an_edge_of_the_model(state: SegmentState) -> None:
    for more in ({}, {"allocated": 2, "users": ("a", "b")}, {"last_released_at": NOW}):
        for requests in ((), (asked(1, "delete", drain=True),), (asked(1, "update", mtu=9000),)):
            decided = SEGMENT_KIND.guarded(HANDLER).handle(segment(state, requests=requests, **more), NOW)
            if isinstance(decided, Transition):
                assert (state, decided.to.state) in SPEC.pairs
            else:
                assert isinstance(decided, Update | Wait | DoNothing | Deleted)


@states
def test_every_request_is_answered_unless_the_segment_is_provisioning(state: SegmentState) -> None:
    requests = (asked(1, "update", mtu=9000), asked(2, "delete"), asked(3, "delete"), asked(4, "update", vlan=3))
    decided = SEGMENT_KIND.guarded(HANDLER).handle(segment(state, requests=requests), NOW)
    assert not isinstance(decided, Step)
    answered = {write.request for write in decided.writes if isinstance(write, Answer)}
    # The next run, in the draining state, answers the requests after an accepted deletion.
    expected = {SegmentState.PROVISIONING: set[int](), SegmentState.READY: {1, 2}}
    assert answered == expected.get(state, {1, 2, 3, 4})


def test_leaving_ready_gives_the_commit_the_premise_of_the_decision() -> None:
    unused = HANDLER.handle(segment(requests=(asked(1, "delete"),)), NOW)
    used = HANDLER.handle(segment(requests=(asked(1, "delete", drain=True),), allocated=1, users=("a",)), NOW)
    assert Closing(unused=True) in unused.writes
    assert Closing(unused=False) in used.writes


def test_added_prefixes_are_written_with_the_site_of_the_segment() -> None:
    decided = HANDLER.handle(segment(requests=(asked(1, "update", add_prefixes=["10.1.0.0/24"]),)), NOW)
    assert isinstance(decided, Update)
    assert decided.to.prefixes == ("10.0.0.0/24", "10.1.0.0/24")
    assert Growing("ams") in decided.writes


def test_a_clash_that_the_load_found_refuses_only_its_own_request() -> None:
    requests = (
        asked(1, "update", add_prefixes=["10.1.0.0/24"]),
        asked(2, "update", add_prefixes=["10.2.0.0/24"]),
    )
    decided = HANDLER.handle(segment(requests=requests, clashes={"1": ("10.1.0.0/24 overlaps x",)}), NOW)
    assert isinstance(decided, Update)
    assert decided.to.prefixes == ("10.0.0.0/24", "10.2.0.0/24")
    assert [write for write in decided.writes if isinstance(write, Answer)] == [
        Answer(1, False, "10.1.0.0/24 overlaps x"),
        Answer(2, True),
    ]


def test_two_requests_of_one_run_cannot_add_overlapping_prefixes() -> None:
    requests = (
        asked(1, "update", add_prefixes=["10.1.0.0/24"]),
        asked(2, "update", add_prefixes=["10.1.0.0/25"]),
    )
    decided = HANDLER.handle(segment(requests=requests), NOW)
    assert Answer(2, False, "10.1.0.0/25 overlaps 10.1.0.0/24") in decided.writes


def test_parameters_that_this_version_does_not_know_are_refused_without_an_error() -> None:
    decided = HANDLER.handle(segment(requests=(asked(1, "update", colour="red"),)), NOW)
    answer = decided.writes[0]
    assert isinstance(answer, Answer)
    assert (answer.accepted, "colour" in answer.reason) == (False, True)


@given(gaps=st.lists(st.floats(1, 145), min_size=1, max_size=60))
def test_while_addresses_are_allocated_the_drain_does_not_end_and_its_deadline_stays_ahead(gaps: list[float]) -> None:
    """Tested with runs at any times that are less than half a period apart."""
    now, held = NOW, draining(allocated=1, users=("a",), drain_until=NOW + PERIOD)
    pushed = 0
    for gap in gaps:
        now += timedelta(seconds=gap)
        decided = HANDLER.handle(held, now)
        assert isinstance(decided, Update | Wait)
        if isinstance(decided, Update):
            pushed += 1
            assert decided.quiet
            held = decided.to
        assert held.drain_until is not None
        assert now < held.drain_until <= now + PERIOD
    assert pushed <= sum(gaps) / (PERIOD / 2).total_seconds()


@pytest.mark.parametrize(("ago", "ends"), [(299.9, False), (300, True), (301, True)])
def test_a_drain_ends_one_period_after_the_last_release_and_not_before(ago: float, ends: bool) -> None:
    decided = HANDLER.handle(draining(last_released_at=NOW - timedelta(seconds=ago)), NOW)
    assert isinstance(decided, Transition) == ends
    if not ends:
        assert isinstance(decided, Update)
        assert decided.requeue_after == timedelta(seconds=300 - ago)
        again = HANDLER.handle(decided.to, NOW)
        assert isinstance(again, Wait)  # the deadline is written only once
        assert again.requeue_after == decided.requeue_after


def test_an_old_deadline_does_not_end_a_drain_whose_last_address_was_released_later() -> None:
    decided = HANDLER.handle(draining(last_released_at=NOW, drain_until=NOW - timedelta(minutes=1)), NOW)
    assert isinstance(decided, Update)
    assert decided.to.drain_until == NOW + PERIOD


@states
def test_labels_are_the_states_of_the_spec(state: SegmentState) -> None:
    first, second = SEGMENT_KIND.label(segment(state))
    assert (f"{first}/{second}" if second else first) in SPEC.states


def test_the_addresses_of_a_huge_prefix_are_counted_without_a_list() -> None:
    assert room(parse_prefix("::/0"), (), 10, 10) == (1 << 128) - 21


def test_a_backdated_release_does_not_end_a_drain_before_the_reported_deadline() -> None:
    reported = NOW + PERIOD / 2
    decided = HANDLER.handle(draining(drain_until=reported, last_released_at=NOW - PERIOD), NOW)
    assert isinstance(decided, Wait)
    assert decided.requeue_after == PERIOD / 2
    after = HANDLER.handle(draining(drain_until=reported, last_released_at=NOW - PERIOD), reported)
    assert isinstance(after, Transition)


def test_a_shortened_period_counts_from_now_and_then_ends_the_drain() -> None:
    held = draining(drain_until=NOW + timedelta(days=1), last_released_at=NOW - PERIOD)
    decided = HANDLER.handle(held, NOW)
    assert isinstance(decided, Update)
    assert decided.to.drain_until == NOW + PERIOD
    assert isinstance(HANDLER.handle(decided.to, NOW + PERIOD), Transition)
