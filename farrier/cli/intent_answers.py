"""Defines, for commands that submit an intent, the option of the client's name and the output of the answer.

The exit codes are the same as for `farrier intent submit`: 0 accepted, 3 rejected, 1 no answer in time.
"""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli import output
from farrier.errors import ExitCode, RefusedByModel
from farrier.model.requests import Answer

BY_HELP = (
    "Client name that the history records. Default: this user's name; with --api, the name of the token. With --api, "
    "only a token with the scope admin may name another client."
)
By = Annotated[str | None, typer.Option("--requested-by", help=BY_HELP)]


def print_pending(intent: int, text: str, *, as_json: bool) -> None:
    """Print that an intent was submitted, without waiting for its answer."""
    if as_json:
        output.json({"intent": intent, "status": "pending"})
    else:
        typer.echo(f"intent {intent}: {text} is submitted; use --wait to wait for the answer")


def judged(kind: str, intent: int, answer: Answer | None, timeout: str, *, as_json: bool) -> Answer:
    """Print the answer. Returns it if it is `accepted`. If there is no answer, the error names the command that
    explains why."""
    if answer is None:
        if as_json:
            output.json({"intent": intent, "status": "pending"})
        raise late(
            f"intent {intent} was not answered within {timeout}; it stays valid until a controller answers it; to see "
            f"what the {output.words(kind)} waits for, run farrier resource why {kind} NAME"
        )
    if as_json:
        output.json(answer)
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
