"""Completes those words in a shell for which farrier needs no database: states, output formats, contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import typer

from farrier.errors import FarrierError

Completion = Callable[[typer.Context, str], Sequence[str]]


def one_of(known: Iterable[str]) -> Completion:
    """Return the function that completes one of these words."""
    words = sorted(map(str, known))

    def completed(_: typer.Context, incomplete: str) -> Sequence[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def several_of(known: Iterable[str]) -> Completion:
    """Return the function that completes the last word of a list that is separated by commas."""
    words = sorted(map(str, known))

    def completed(_: typer.Context, incomplete: str) -> Sequence[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in words if word.startswith(last)]

    return completed


def context_names(_: typer.Context, incomplete: str) -> Sequence[str]:
    """Complete the name of a context."""
    from farrier.config import contexts

    try:
        return [name for name in contexts.load().contexts if name.startswith(incomplete)]
    except FarrierError:
        return []
