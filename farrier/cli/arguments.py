"""What is typed in a form of its own: KEY=VALUE pairs, durations, moments. What does not fit is a usage error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
import typer

from farrier.model import duration, history
from farrier.model.params import Field

_BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}")  # what fits into 64 bits


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


def typed(fields: Mapping[str, Field], given: Mapping[str, str]) -> dict[str, object]:
    """Convert texts to the types of their parameters: flags, whole numbers, lists with commas and JSON objects. A text
    that does not fit its type stays a text; the database then refuses it and says why."""
    return {name: _typed(fields[name].type, text) if name in fields else text for name, text in given.items()}


def _typed(type_: str, text: str) -> object:
    match type_:
        case "boolean":
            return _BOOLEANS.get(text, text)
        case "integer":
            return _number(text) if _WHOLE.fullmatch(text) else text
        case "object":
            return _object(text)
        case "array":
            return [element for element in text.split(",") if element]
        case _:
            return text


def _object(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def whole(text: str) -> int:
    """A whole number; 0x begins one in hexadecimal, as the keys of partitions are written elsewhere."""
    if not _WHOLE.fullmatch(text):
        raise typer.BadParameter(f"expected a whole number, 0x… for hexadecimal; got {text!r}")
    return _number(text)


def _number(text: str) -> int:
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def patience(text: str) -> timedelta:
    """How long to wait."""
    try:
        return duration.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def age_or_moment(text: str) -> timedelta | datetime:
    """How long ago, or when; a time without a zone is UTC."""
    try:
        return history.parse_bound(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def key(text: str) -> history.HistoryKey:
    """From where to go on in history."""
    try:
        return history.parse_key(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
