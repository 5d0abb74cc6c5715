"""`farrier intent get` and `farrier intent wait`: print one intent and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import typer

from farrier.cli.intent import answers, numbering
from farrier.cli.options import arguments
from farrier.cli.output import printing
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession
from farrier.model.node.edges import NODE
from farrier.model.views.intents import IntentView


async def get(
    session: CommandSession,
    intent: numbering.IntentArgument,
    kind: numbering.KindOption = NODE,
    as_json: printing.AsJson = False,
) -> None:
    """Show an intent with its parameters and its answer."""
    page = await numbering.one(session, kind, intent)
    (found,) = page.rows
    if as_json:
        printing.json(found)
    else:
        printing.facts(_facts(found, page.now))


async def wait(
    session: CommandSession,
    intent: numbering.IntentArgument,
    kind: numbering.KindOption = NODE,
    timeout: Annotated[str, typer.Option(help="Time limit.")] = "60s",
    as_json: printing.AsJson = False,
) -> None:
    """Wait for the answer to an intent. Exit code 0: accepted, 3: rejected, 1: no answer in time."""
    patience = arguments.patience("--timeout", timeout)
    await numbering.one(session, kind, intent)
    answer = await session.requests.answer(kind, intent, patience)
    answers.judged(kind, intent, answer, timeout, as_json=as_json)


def _facts(intent: IntentView, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield "intent", str(intent.id)
    yield printing.words(intent.kind), f"{intent.name} (id {intent.resource})"
    yield "action", intent.action
    for name, value in intent.params.items():
        yield f"  {name}", printing.text(value)
    yield "status", printing.state(intent.status)
    yield "reason", intent.reason
    yield "requested by", intent.requested_by
    yield "idempotency key", intent.idempotency_key
    yield "requested", f"{printing.moment(intent.created_at)} ({printing.ago(intent.created_at, now)} ago)"
    yield "answered", printing.moment(intent.answered_at)
