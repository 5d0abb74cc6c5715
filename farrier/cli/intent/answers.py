"""Submits an intent, waits for the answer or for a state, and prints the answer. Defines options for this.

The exit codes are the same as for `farrier intent submit`: 0 accepted, 3 rejected, 1 no answer in time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import anyio
import msgspec
import typer

from farrier.bulk.run import LOOK_EVERY_SECONDS, Reached
from farrier.cli.options import arguments
from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession
from farrier.errors import ExitCode, RefusedByModel
from farrier.model.duration import with_unit
from farrier.model.intents.requests import IntentAnswer, IntentRequest
from farrier.model.kinds.spec import CREATE
from farrier.model.node.layers import NODE

BY_HELP = (
    "Client name that the history records. Default: this user's name; with --api, the name of the token. With --api, "
    "only a token with the scope admin may name another client."
)
By = Annotated[str | None, typer.Option("--requested-by", help=BY_HELP)]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the answer. Exit code 0: accepted, 3: rejected.")]
Timeout = Annotated[str, typer.Option(help="Time limit for --wait and --until.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="Idempotency key: an intent that is submitted twice with the same key is stored once.",
    ),
]


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """An intent to submit, and the answer or state for which to wait."""

    request: IntentRequest
    wait: bool
    until: str | None
    timeout: str
    as_json: bool


See = Callable[[int], Awaitable[tuple[str, Reached]]]
"""Returns the name of the resource with an ID, and its progress to the state for which the command waits."""


async def ask(session: CommandSession, asked: Asking, see: See) -> None:
    """Submit the intent, and wait for the requested answer or state."""
    request, timeout = asked.request, asked.timeout
    patience = arguments.patience("--timeout", timeout)
    intent = await session.requests.ask(request)
    answered = request.action == CREATE  # for `create`, the INSERT already contains the answer
    if not (asked.wait or answered) and asked.until is None:
        of = request.resource if request.kind == NODE else f"{request.kind} {request.resource}"
        if asked.as_json:
            printing.json({"intent": intent, "status": "pending"})
        else:
            typer.echo(f"intent {intent}: {request.action} of {of} is submitted; use --wait to wait for the answer")
        return
    deadline = anyio.current_time() + patience.total_seconds()
    found = await session.requests.answer(request.kind, intent, patience)
    answer = judged(request.kind, intent, found, timeout, as_json=asked.as_json)
    if asked.until is not None:
        name = await _until(asked, see, answer.resource, deadline)
        if not asked.as_json:
            typer.echo(f"{name} is {asked.until}")


async def _until(asked: Asking, see: See, id_: int, deadline: float) -> str:
    """Wait until the resource has the state, and return the resource's name."""
    found = "unknown"
    with anyio.CancelScope(deadline=deadline):
        while True:
            name, reached = await see(id_)
            found = reached.state
            if reached.is_there:
                return name
            if reached.failure:
                raise late(f"{name} {reached.failure}")
            await anyio.sleep(LOOK_EVERY_SECONDS)
    subject, group = ("node", "node") if asked.request.kind == NODE else ("state", "resource")
    why = f"to see the reason, run farrier {group} why"
    raise late(f"the {subject} is {found}, not {asked.until}, after {with_unit(asked.timeout)}; {why}")


def judged(kind: str, intent: int, answer: IntentAnswer | None, timeout: str, *, as_json: bool) -> IntentAnswer:
    """Print the answer, and return it if it is `accepted`. Without one, the error names the command that says why."""
    if answer is None:
        if as_json:
            printing.json({"intent": intent, "status": "pending"})
        raise late(
            f"intent {intent} was not answered within {with_unit(timeout)}; it stays valid until a controller answers "
            f"it; to see what the {printing.words(kind)} waits for, run farrier resource why {kind} NAME"
        )
    if as_json:
        printing.json(answer)
    reason = f": {answer.reason}" if answer.reason else ""
    if answer.status != "accepted":
        raise RefusedByModel(f"intent {intent} was {answer.status}{reason}")
    if not as_json:
        typer.echo(f"intent {intent} is accepted{reason}")
    return answer


def late(text: str) -> typer.Exit:
    """Return the error for an answer that did not arrive in time, with advice."""
    typer.echo(f"farrier: {text}", err=True)
    return typer.Exit(ExitCode.FAILED)
