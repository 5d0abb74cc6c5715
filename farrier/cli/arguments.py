"""What is typed in a form of its own: KEY=VALUE pairs, durations, moments. What does not fit is a usage error."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import typer

from farrier.model import duration


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
        return duration.parse(text)
    except ValueError:
        pass
    try:
        at = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise typer.BadParameter(
            f"expected an age (30m, 2h, 7d) or a time (2026-01-31T12:00:00Z), got {text!r}"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
