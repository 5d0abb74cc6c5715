"""`farrier intent get` and `farrier intent wait`: print one intent and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import typer

from farrier.cli import arguments, intent_answers, intent_kind, output
from farrier.cli.connection import Session
from farrier.cli.output import Cell
from farrier.model.edges import NODE
from farrier.model.intent_views import IntentView


async def get(
    session: Session,
    intent: intent_kind.IntentArgument,
    kind: intent_kind.KindOption = NODE,
    as_json: output.AsJson = False,
) -> None:
    """Show an intent with its parameters and its answer."""
    page = await intent_kind.one(session, kind, intent)
    (found,) = page.rows
    if as_json:
        output.json(found)
    else:
        output.facts(_facts(found, page.now))


async def wait(
    session: Session,
    intent: intent_kind.IntentArgument,
    kind: intent_kind.KindOption = NODE,
    timeout: Annotated[str, typer.Option(help="Time limit.")] = "60s",
    as_json: output.AsJson = False,
) -> None:
    """Wait for the answer to an intent. Exit code 0: accepted, 3: rejected, 1: no answer in time."""
    patience = arguments.patience("--timeout", timeout)
    await intent_kind.one(session, kind, intent)
    answer = await session.requests.answer(kind, intent, patience)
    intent_answers.judged(kind, intent, answer, timeout, as_json=as_json)


def _facts(intent: IntentView, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield "intent", str(intent.id)
    yield output.words(intent.kind), f"{intent.name} (id {intent.resource})"
    yield "action", intent.action
    for name, value in intent.params.items():
        yield f"  {name}", output.text(value)
    yield "status", output.state(intent.status)
    yield "reason", intent.reason
    yield "requested by", intent.requested_by
    yield "idempotency key", intent.idempotency_key
    yield "requested", f"{output.moment(intent.created_at)} ({output.ago(intent.created_at, now)} ago)"
    yield "answered", output.moment(intent.answered_at)
