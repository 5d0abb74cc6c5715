"""What is typed in a form of its own: KEY=VALUE pairs, durations, moments. What does not fit is a usage error."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import typer

from farrier.model import duration, past


def pairs(given: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts as a mapping; each key once."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"expected KEY=VALUE, got {text!r}")
        if key in found:
            raise typer.BadParameter(f"{key} is given twice")
        found[key] = value
    return found


def patience(text: str) -> timedelta:
    """How long to wait."""
    try:
        return duration.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def age_or_moment(text: str) -> timedelta | datetime:
    """How long ago, or when; a time without a zone is UTC."""
    try:
        return past.parse_bound(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def key(text: str) -> past.HistoryKey:
    """From where to go on in history."""
    try:
        return past.parse_key(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
