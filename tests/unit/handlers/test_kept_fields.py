"""The fields of a snapshot that a run may change: those that its commit writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from farrier.config import ControllerConfig
from farrier.controller.outcome_validator import OutcomeValidator
from farrier.errors import HandlerGarbage
from farrier.handlers.resource.extension import Extension
from farrier.model.kinds.resource import Answer
from farrier.model.loop.outcome import Update
from farrier.model.loop.runs import Turn
from farrier.wiring.kinds import loop_of
from tests.support.crates import SPEC, Crate, CrateHandler, Hand

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PACKED = Crate(
    id=1, version=1, name="c", state="packed", state_entered_at=NOW, created_at=NOW, size=1, labels=(), slot=1
)
CRATE: Extension[Crate, Answer, Hand] = Extension(
    spec=SPEC, snapshot=Crate, handler=CrateHandler(), columns=("labels",)
)


@pytest.mark.parametrize("changes", [{"size": 2}, {"name": "other"}, {"site": "ams1", "labels": ("a",)}])
def test_a_change_of_a_field_that_no_commit_writes_fails_the_run(changes: dict[str, Any]) -> None:
    validator: OutcomeValidator[Crate, Crate, Answer] = OutcomeValidator(loop_of(CRATE, None).kind, ControllerConfig())
    outcome: Update[Crate, Answer] = Update(to=PACKED.but(**changes), reason="changed")
    with pytest.raises(HandlerGarbage, match=f"an outcome at .* that changes {next(iter(changes))}, but no commit"):
        validator.finish(Turn(id=1, epoch=1), PACKED, outcome)


def test_a_run_may_change_the_columns_of_its_extension() -> None:
    validator: OutcomeValidator[Crate, Crate, Answer] = OutcomeValidator(loop_of(CRATE, None).kind, ControllerConfig())
    outcome: Update[Crate, Answer] = Update(to=PACKED.but(labels=("a",), last_error="x"), reason="changed")
    assert validator.finish(Turn(id=1, epoch=1), PACKED, outcome).to == outcome.to
