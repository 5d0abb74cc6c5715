"""Parsers of arguments: KEY=VALUE pairs, durations, times. An invalid one is a usage error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
import typer

from farrier.config.reading import nearest
from farrier.model import duration, history, selection
from farrier.model.params import Field
from farrier.model.selection import LabelTest

_BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}")  # what fits into 64 bits


def pairs(given: Sequence[str]) -> dict[str, str]:
    """Convert KEY=VALUE texts to a mapping. Each key may occur once."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"expected KEY=VALUE, got {text!r}")
        if key in found:
            raise typer.BadParameter(f"{key} is given twice")
        found[key] = value
    return found


def among(what: str, given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Convert texts, each with one value or several separated by commas. Each value must be known."""
    values = tuple(value for text in given for value in text.split(","))
    names = tuple(map(str, known))
    for value in values:
        if value not in names:
            raise typer.BadParameter(f"no {what} is named {value!r}; {nearest(value, names)}")
    return values


def label_tests(given: Iterable[str]) -> tuple[LabelTest, ...]:
    """Convert tests of labels."""
    try:
        return selection.label_tests(given)
    except ValueError as error:
        raise typer.BadParameter(f"--label: {error}") from None


def typed(fields: Mapping[str, Field], given: Mapping[str, str]) -> dict[str, object]:
    """Convert texts to the types of their parameters: flags, whole numbers, lists with commas and JSON objects. A text
    that does not match the type of its parameter stays a text; the database refuses it and names the reason."""
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
    """Convert a whole number. The prefix 0x means hexadecimal, as for the keys of partitions."""
    if not _WHOLE.fullmatch(text):
        raise typer.BadParameter(f"expected a whole number, 0x… for hexadecimal; got {text!r}")
    return _number(text)


def _number(text: str) -> int:
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def patience(text: str) -> timedelta:
    """Convert a duration."""
    try:
        return duration.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def age_or_moment(text: str) -> timedelta | datetime:
    """Convert an age or a time. A time without a zone is UTC."""
    try:
        return history.parse_bound(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def key(text: str) -> history.HistoryKey:
    """Convert the key of a history entry."""
    try:
        return history.parse_key(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
