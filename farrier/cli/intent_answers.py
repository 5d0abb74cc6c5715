"""What commands that ask for something have in common: who asks, and how the answer is told.

Exit codes are those of `farrier intent`: 0 accepted, 3 rejected, 1 no answer in time.
"""

from __future__ import annotations

import getpass
import os
from typing import TypeVar

import typer

from farrier.cli import output
from farrier.errors import ExitCode, RefusedByModel
from farrier.model.requests import Answer, ResourceAnswer

A = TypeVar("A", Answer, ResourceAnswer)


def this_user() -> str:
    """Who asks, unless somebody else is named."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def tell_pending(intent: int, text: str, *, as_json: bool) -> None:
    """Say that something is asked for, whose answer nobody waits for."""
    if as_json:
        output.json({"intent": intent, "status": "pending"})
    else:
        typer.echo(f"intent {intent}: {text} is asked for; --wait would wait for the answer")


def judged(intent: int, answer: A | None, timeout: str, *, see: str, as_json: bool) -> A:
    """Print the answer; it is only returned if it was `accepted`. `see` says why there may be none."""
    if answer is None:
        if as_json:
            output.json({"intent": intent, "status": "pending"})
        raise late(
            f"intent {intent} was not answered within {timeout}; it stays, and will be answered when a controller runs "
            f"the {see}"
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
    """Say that patience is over, and how to go on; to be raised."""
    typer.echo(f"farrier: {text}", err=True)
    return typer.Exit(ExitCode.FAILED)
