"""Intents for simple kinds: the actions that a state accepts, and the texts with which it refuses others."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from farrier.errors import RefusedByModel
from farrier.handlers.resource import ResourceKind, accept, params_of, reject, sort
from farrier.model.resource import Answer, Pending
from farrier.model.runs import Answered, Place
from tests.support.crates import SPEC, Crate, Relabel

AT = datetime(2026, 1, 2, tzinfo=UTC)
ACCEPTED_IN = {"update": {"packed"}, "delete": {"packing", "packed"}}


def asked(id_: int, action: str, **params: object) -> Pending:
    return Pending(id=id_, action=action, params=params, created_at=AT, requested_by="ops")


def crate(state: str, *requests: Pending) -> Crate:
    return Crate(
        id=7,
        version=3,
        name="c-1",
        state=state,
        state_entered_at=AT,
        created_at=AT,
        size=1,
        labels=(),
        slot=1,
        requests=requests,
    )


def test_requests_that_the_state_accepts_come_in_their_order_and_the_others_are_refused_with_when_they_would_do() -> (
    None
):
    update, delete, paint = asked(1, "update"), asked(2, "delete"), asked(3, "paint")
    fitting, refusals = sort(SPEC, crate("packing", update, delete, paint), ACCEPTED_IN)
    assert fitting == (delete,)
    assert refusals == (
        Answer(1, False, "update is accepted in state packed; this crate is packing"),
        Answer(3, False, "paint is not an action of any crate"),
    )


def test_an_ended_resource_refuses_everything() -> None:
    fitting, refusals = sort(SPEC, crate("gone", asked(1, "delete")), ACCEPTED_IN)
    assert not fitting
    assert refusals == (Answer(1, False, "this crate has ended"),)


def test_several_states_are_named_in_the_order_of_the_model() -> None:
    _, refusals = sort(SPEC, crate("emptying/unpack", asked(1, "delete")), ACCEPTED_IN)
    assert refusals[0].reason == "delete is accepted in state packing or packed; this crate is emptying/unpack"


def test_parameters_that_no_longer_fit_are_refused_in_words() -> None:
    assert params_of(asked(1, "update", labels=["a"]), Relabel) == Relabel(labels=("a",))
    with pytest.raises(RefusedByModel, match="update: Object missing required field `labels`"):
        params_of(asked(1, "update"), Relabel)


def test_the_loop_is_told_of_answers_places_and_labels() -> None:
    kind: ResourceKind[Crate] = ResourceKind(SPEC)
    update = asked(1, "update")
    one = crate("emptying/unpack", update, asked(2, "delete"))
    assert kind.answers(one, [accept(update), reject(one.requests[1], "no"), object()]) == [
        Answered(1, "update", "accepted", "", "ops"),
        Answered(2, "delete", "rejected", "no", "ops"),
    ]
    assert kind.identify(one) == (7, 3)
    assert kind.current_layers(one) == {"state": Place("emptying/unpack", AT)}
    assert kind.target_layers(msgspec.structs.replace(one, state="gone")) == {"state": "gone"}
    assert kind.label(one) == ("emptying", "unpack")
    assert kind.edges["state"] == SPEC.pairs
