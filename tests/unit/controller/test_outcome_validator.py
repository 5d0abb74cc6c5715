"""From an outcome to its commit: the time of the next run, whether it is stored, and the edges that it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies

from farrier.config import ControllerConfig
from farrier.controller.outcome_validator import OutcomeValidator, recorded
from farrier.errors import HandlerGarbage, HandlerTimeout, InternalError
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import Deleted, DoNothing, Outcome, Transition, Update, Wait
from farrier.model.loop.runs import Due, Finished, Move, Turn
from tests.support import toy
from tests.support.toy import Answer, Shape, State, Widget

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(seconds=30)
RAW = Widget(1, 5, State.RAW, NOW - timedelta(seconds=90), "", ())

AT_ONCE = timedelta(0)

validator: OutcomeValidator[Widget, Shape, Answer] = OutcomeValidator(toy.WidgetKind(), ControllerConfig())


def finish(
    outcome: Outcome[Shape, Answer], *, outcome_key: int | None = None, reruns: int = 0
) -> Finished[Shape, Answer]:
    return validator.finish(Turn(id=1, epoch=7, outcome_key=outcome_key, reruns=reruns), RAW, outcome)


def test_a_transition_has_its_move_and_the_entry_time_of_the_former_state() -> None:
    run = finish(Transition(to=Shape(State.MADE), reason="r", cause="c"))
    assert run.moves == (Move("state", "raw", "made", RAW.entered_at),)
    assert (run.due, run.version, run.epoch) == (Due.RERUN, 5, 7)


def test_the_fifty_first_consecutive_transition_waits_for_the_sweep() -> None:
    transition = Transition[Shape, Answer](to=Shape(State.MADE), reason="r", cause="c")
    assert finish(transition, reruns=49).due is Due.RERUN
    assert finish(transition, reruns=50).due is Due.PERIODIC
    assert finish(transition, reruns=50).delay == timedelta(0)
    assert (finish(transition, reruns=49).limited, finish(transition, reruns=50).limited) == (False, True)


@pytest.mark.parametrize(
    "outcome", [Wait[Answer](reason="r", requeue_after=AT_ONCE), DoNothing[Answer](requeue_after=AT_ONCE)]
)
def test_requeue_after_zero_reruns_at_once_up_to_the_limit_of_transitions(
    outcome: Wait[Answer] | DoNothing[Answer],
) -> None:
    assert finish(outcome, reruns=49).due is Due.RERUN
    assert not finish(outcome, reruns=49).limited
    spinning = finish(outcome, reruns=50)
    assert spinning.due is Due.PERIODIC
    assert spinning.limited
    assert spinning.delay == timedelta(seconds=1), "without a pause it would run as fast as the database allows"


def test_an_update_moves_nothing_and_runs_with_the_sweep() -> None:
    run = finish(Update(to=Shape(State.RAW, "x"), reason="r"))
    assert (run.moves, run.due, run.rests) == ((), Due.PERIODIC, False)


@given(requeue_after=strategies.none() | strategies.timedeltas(timedelta(days=-1), timedelta(days=1)))
def test_a_wait_runs_again_within_the_jittered_period_or_sooner(requeue_after: timedelta | None) -> None:
    delay = finish(Wait(reason="r", requeue_after=requeue_after)).delay
    if requeue_after is None:
        assert 0.9 * PERIOD <= delay <= 1.1 * PERIOD
    else:
        assert timedelta(0) <= delay <= min(1.1 * PERIOD, max(requeue_after, timedelta(0)))


@pytest.mark.parametrize("outcome", [Wait[Answer](reason="r"), DoNothing[Answer]()])
def test_an_outcome_that_is_already_stored_is_not_stored_again(outcome: Wait[Answer] | DoNothing[Answer]) -> None:
    first = finish(outcome)
    assert first.record is not None
    again = finish(outcome, outcome_key=first.outcome_key)
    assert again.record is None
    assert again.rests


def test_a_resource_ends_only_in_a_terminal_state() -> None:
    made = msgspec.structs.replace(RAW, state=State.MADE)
    with pytest.raises(HandlerGarbage, match=r"a Deleted at .* although the state of the resource is not terminal"):
        validator.finish(Turn(id=1), made, Deleted[Answer]())


@pytest.mark.parametrize("samples", [[Sample("made")], ("made",)], ids=["a list", "a tuple of texts"])
def test_samples_that_are_not_a_tuple_of_samples_are_refused(samples: Any) -> None:
    with pytest.raises(HandlerGarbage, match="samples that are not a tuple of Sample"):
        finish(DoNothing(samples=samples))


def test_another_reason_is_another_outcome() -> None:
    first, second = (finish(Wait(reason=reason, source="s")) for reason in ("a", "b"))
    assert first.outcome_key != second.outcome_key
    assert finish(Wait(reason="b", source="s"), outcome_key=first.outcome_key).record is not None


def test_a_run_with_writes_never_rests() -> None:
    first = finish(DoNothing(source="s"))
    assert not finish(DoNothing(source="s", writes=(Answer(1),)), outcome_key=first.outcome_key).rests


def test_a_failed_run_is_retried_in_the_next_period_and_its_record_has_no_secret() -> None:
    turn = Turn(id=1, epoch=7)
    run = validator.fail(turn, 5, recorded(InternalError("password=hunter2")))
    assert run.record is not None
    assert (run.record.outcome, run.record.error, run.record.reason) == ("error", "internal", "see the log")
    assert (run.due, run.commit_id) == (Due.PERIODIC, turn.commit_id)
    assert run.delay >= 0.9 * PERIOD
    timeout = validator.fail(turn, 5, recorded(HandlerTimeout("act", timedelta(seconds=3))))
    assert timeout.record is not None
    assert "3 s" in timeout.record.reason
