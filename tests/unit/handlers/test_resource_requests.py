"""Intents of simple kinds: their parameters, and what the kind reports to the loop."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from farrier.errors import RefusedByModel
from farrier.handlers.resource.kind import ResourceKind
from farrier.handlers.resource.requests import accept, params_of, reject
from farrier.model.kinds.resource import Pending
from farrier.model.loop.runs import AnsweredIntent, LayerState
from tests.support.crates import SPEC, Crate, Relabel

AT = datetime(2026, 1, 2, tzinfo=UTC)


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


def test_parameters_that_no_longer_fit_are_refused_with_the_missing_field() -> None:
    assert params_of(asked(1, "update", labels=["a"]), Relabel) == Relabel(labels=("a",))
    with pytest.raises(RefusedByModel, match="update: Object missing required field `labels`"):
        params_of(asked(1, "update"), Relabel)


def test_a_kind_gives_the_loop_its_answers_layers_and_labels() -> None:
    kind: ResourceKind[Crate] = ResourceKind(SPEC)
    update = asked(1, "update")
    one = crate("emptying/unpack", update, asked(2, "delete"))
    assert kind.answers(one, [accept(update), reject(one.requests[1], "no"), object()]) == [
        AnsweredIntent(1, "update", "accepted", "", "ops"),
        AnsweredIntent(2, "delete", "rejected", "no", "ops"),
    ]
    assert kind.current_layers(one) == {"state": LayerState("emptying/unpack", AT)}
    assert kind.target_layers(msgspec.structs.replace(one, state="gone")) == {"state": "gone"}
    assert kind.label(one) == ("emptying", "unpack")
    assert kind.edges["state"] == SPEC.pairs
