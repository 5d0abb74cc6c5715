"""The decisions of a region's run, and the changes after an observation: tables, without a region."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.config.sites import MaasSite, ObserveSite, Site
from farrier.handlers.maas_region.handler import UNCONFIGURED_AFTER, UNREADABLE_AGAIN, RegionHandler, back_off, settle
from farrier.handlers.maas_region.observe import Findings
from farrier.model.loop.outcome import DoNothing, Step, Transition, Update, Wait
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus
from farrier.model.maas.region import Cursor, DueMachine, MaasRegion, MissedEvents, NamedMachines, Reading, RegionState
from tests.support.nodes import NOW

SECOND = timedelta(seconds=1)
PACE = ObserveSite()
URL = "http://maas.test/MAAS"
NORTH = Site(name="north", maas=MaasSite(url=URL, key="env:KEY"))
HANDLER = RegionHandler({"north": NORTH})
DUE = DueMachine(1, "x00001")
LOST = MaasError(MaasFailure.UNREACHABLE, "nobody answers", operation="events")


def region(state: RegionState = RegionState.OBSERVING, **fields: Any) -> MaasRegion:
    """Return a region that was read a second ago."""
    given: dict[str, Any] = {
        "id": 1,
        "name": "north",
        "site": "north",
        "url": URL,
        "version": 3,
        "state_entered_at": NOW - 60 * SECOND,
        "created_at": NOW - 60 * SECOND,
        "username": "admin",
        "identified_at": NOW - SECOND,
        "complete_at": NOW - SECOND,
        "cursor": Cursor(newest=7),
        "configured_at": NOW - SECOND,
    }
    return MaasRegion(state=state, **given | fields)


def found(**fields: Any) -> Findings:
    """Return the findings of a successful observation without news."""
    looked = Findings(Cursor(newest=7))
    looked.complete = True
    for name, value in fields.items():
        setattr(looked, name, value)
    return looked


def reading(one: DueMachine) -> Reading:
    return Reading(node=one.node, system_id=one.system_id, state=MaasStatus.READY, read_at=NOW)


def test_a_region_with_nothing_due_runs_again_when_its_events_are_due() -> None:
    decided = HANDLER.handle(region(), NOW)
    assert isinstance(decided, DoNothing)
    assert decided.requeue_after == 4 * SECOND


@pytest.mark.parametrize(
    "due",
    [
        region(complete_at=None),
        region(complete_at=NOW - 5 * SECOND),
        region(identified_at=None),
        region(due=(DUE,)),
    ],
)
def test_an_observation_that_is_due_is_a_step_that_only_reads(due: MaasRegion) -> None:
    decided = HANDLER.handle(due, NOW)
    assert isinstance(decided, Step)
    assert decided.reads_only


@pytest.mark.parametrize("state", [RegionState.STARTING, RegionState.OBSERVING, RegionState.FAILING])
def test_a_region_whose_site_no_process_configures_for_ten_minutes_is_unconfigured(state: RegionState) -> None:
    nowhere = RegionHandler()
    assert isinstance(nowhere.handle(region(state, configured_at=NOW - UNCONFIGURED_AFTER + SECOND), NOW), Wait)
    decided = nowhere.handle(region(state, configured_at=NOW - UNCONFIGURED_AFTER), NOW)
    assert isinstance(decided, Transition)
    assert decided.to.state is RegionState.UNCONFIGURED
    assert isinstance(nowhere.handle(decided.to, NOW), Wait)


def test_an_unconfigured_region_keeps_no_error_of_its_network() -> None:
    failing = region(
        RegionState.FAILING,
        configured_at=NOW - UNCONFIGURED_AFTER,
        last_error="look: timeout: no answer",
        failure=MaasFailure.TIMEOUT,
        failures=80,
    )
    decided = RegionHandler().handle(failing, NOW)
    assert isinstance(decided, Transition)
    assert (decided.to.last_error, decided.to.failure, decided.to.failures) == (None, None, 0)


def test_a_region_that_backs_off_still_records_that_it_is_configured() -> None:
    alone = region(
        RegionState.FAILING, next_try_at=NOW + 300 * SECOND, last_error="no", configured_at=NOW - 61 * SECOND
    )
    decided = HANDLER.handle(alone, NOW)
    assert isinstance(decided, Update)
    assert decided.quiet
    assert decided.to.configured_at == NOW
    assert isinstance(HANDLER.handle(decided.to, NOW), Wait)


def test_a_region_whose_site_this_process_does_not_configure_waits() -> None:
    without = RegionHandler({"north": Site(name="north"), "south": NORTH})
    for handler in (RegionHandler(), without):
        assert isinstance(handler.handle(region(due=(DUE,)), NOW), Wait)
    without.use_sites({"north": NORTH})
    assert isinstance(without.handle(region(due=(DUE,)), NOW), Step)


def test_a_failing_region_waits_until_its_next_attempt() -> None:
    failing = region(RegionState.FAILING, next_try_at=NOW + 7 * SECOND, due=(DUE,))
    decided = HANDLER.handle(failing, NOW)
    assert isinstance(decided, Wait)
    assert decided.requeue_after == 7 * SECOND
    assert isinstance(HANDLER.handle(failing, NOW + 7 * SECOND), Step)


def test_the_first_observation_that_succeeds_sets_the_state_observing() -> None:
    for state in (RegionState.STARTING, RegionState.FAILING):
        left = settle(region(state, failures=3, failure=MaasFailure.BUSY, next_try_at=NOW), found(), NOW, PACE)
        assert isinstance(left, Transition)
        assert left.to.state is RegionState.OBSERVING
        assert (left.to.failure, left.to.failures, left.to.next_try_at) == (None, 0, None)


def test_an_observation_moves_the_cursor_and_records_until_when_events_are_complete() -> None:
    left = settle(region(), found(cursor=Cursor(newest=9)), NOW, PACE)
    assert isinstance(left, Update)
    assert (left.to.cursor, left.to.complete_at) == (Cursor(newest=9), NOW)
    assert left.requeue_after == PACE.events_every


def test_reading_continues_at_once_if_events_remain() -> None:
    before = region(complete_at=NOW - 9 * SECOND)
    left = settle(before, found(cursor=Cursor(newest=9), complete=False), NOW, PACE)
    assert isinstance(left, Update)
    assert (left.to.cursor, left.to.complete_at) == (Cursor(newest=9), before.complete_at)
    assert left.requeue_after is not None
    assert left.requeue_after <= timedelta(0)


def test_an_observation_of_machines_only_does_not_delay_the_next_poll_of_events() -> None:
    before = region(due=(DUE,))
    left = settle(before, found(complete=False, readings=[reading(DUE)]), NOW, PACE)
    assert isinstance(left, Update)
    assert left.requeue_after == 4 * SECOND


@pytest.mark.parametrize(
    ("before", "looked"),
    [
        (region(due=(DUE,), more=True), found(readings=[reading(DUE)])),
        (region(due=(DUE,)), found()),
        (region(), found(named={"x00001": True})),
        (region(), found(begun_anew=True)),
    ],
)
def test_a_region_with_machines_left_to_read_runs_again_at_once(before: MaasRegion, looked: Findings) -> None:
    left = settle(before, looked, NOW, PACE)
    assert isinstance(left, Update)
    assert left.requeue_after == timedelta(0)


def test_findings_are_written_with_events_before_readings() -> None:
    looked = found(begun_anew=True, named={"b": True, "a": False}, readings=[reading(DUE)])
    left = settle(region(), looked, NOW, PACE)
    assert left.writes == (
        MissedEvents(at=NOW),
        NamedMachines(system_id="a", at=NOW, status_changed=False),
        NamedMachines(system_id="b", at=NOW, status_changed=True),
        reading(DUE),
    )


def test_an_observation_that_fails_keeps_its_findings_and_its_cursor() -> None:
    looked = found(cursor=Cursor(newest=9), complete=False, named={"a": True}, readings=[reading(DUE)], failure=LOST)
    before = region(turn_at=NOW)
    left = settle(before, looked, NOW, PACE)
    assert isinstance(left, Transition)
    assert left.to.state is RegionState.FAILING
    assert left.to.cursor == Cursor(newest=9)
    assert left.to.complete_at == before.complete_at
    assert left.to.swept_at is None
    assert left.writes == (NamedMachines(system_id="a", at=NOW, status_changed=True), reading(DUE))
    assert left.to.last_error == "events: unreachable: nobody answers"
    assert (left.to.failure, left.to.next_try_at) == (MaasFailure.UNREACHABLE, NOW + 5 * SECOND)


def test_the_backoff_grows_while_the_same_failure_repeats() -> None:
    before = region(RegionState.FAILING, failure=MaasFailure.UNREACHABLE, failures=2)
    left = settle(before, found(failure=LOST), NOW, PACE)
    assert isinstance(left, Update)
    assert (left.to.failures, left.requeue_after) == (3, 20 * SECOND)
    other = settle(before, found(failure=MaasError(MaasFailure.AUTH, "no")), NOW, PACE)
    assert other.to.failures == 1


@pytest.mark.parametrize("failure", list(MaasFailure))
def test_the_backoff_grows_to_its_limit_for_every_failure(failure: MaasFailure) -> None:
    person = failure in {"auth", "clock_skew", "tls", "forbidden", "invalid"}
    first, longest = (30 * SECOND, 300 * SECOND) if person else (5 * SECOND, 60 * SECOND)
    assert back_off(MaasError(failure, ""), 1) == first
    assert back_off(MaasError(failure, ""), 2) == 2 * first
    assert back_off(MaasError(failure, ""), 1_000_000) == longest


def test_the_backoff_follows_retry_after_up_to_five_minutes() -> None:
    assert back_off(MaasError(MaasFailure.BUSY, "", retry_after=40 * SECOND), 1) == 40 * SECOND
    assert back_off(MaasError(MaasFailure.BUSY, "", retry_after=timedelta(days=1)), 1) == 300 * SECOND


def test_an_unreadable_machine_is_reported_and_not_read_for_a_while() -> None:
    unreadable = {"x00001": MaasError(MaasFailure.PROTOCOL, "odd", operation="machine")}
    before = region(due=(DUE,), unreadable={"old": NOW, "other": NOW + SECOND})
    left = settle(before, found(unreadable=unreadable), NOW, PACE)
    assert isinstance(left, Update)
    assert left.to.unreadable == {"other": NOW + SECOND, "x00001": NOW + UNREADABLE_AGAIN}
    assert left.to.last_error == "machine x00001 cannot be read: protocol: odd"
    assert left.requeue_after == PACE.events_every
    later = settle(left.to, found(), NOW + SECOND, PACE)
    assert later.to.last_error == left.to.last_error


def test_a_sweep_counts_only_if_its_machines_were_read() -> None:
    turn = NOW - SECOND
    assert settle(region(turn_at=turn, due=(DUE,)), found(readings=[reading(DUE)]), NOW, PACE).to.swept_at == turn
    assert settle(region(swept_at=turn), found(), NOW, PACE).to.swept_at == turn


def test_a_sweep_ends_only_after_all_its_machines_were_read() -> None:
    other = DueMachine(2, "x00002")
    left = settle(region(turn_at=NOW, due=(DUE, other)), found(readings=[reading(DUE)]), NOW, PACE)
    assert left.to.swept_at is None
    assert isinstance(left, Update)
    assert left.requeue_after == 0 * SECOND
