"""Converts texts that users type to the parameters of an action, for the command line and the pages."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from farrier.model.intents.params import FieldRules

_BOOLEANS = {"true": True, "false": False}
WHOLE = re.compile(r"-?[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}")
"""A whole number that fits into 64 bits; 0x means hexadecimal."""


def typed(fields: Mapping[str, FieldRules], given: Mapping[str, str]) -> dict[str, object]:
    """Convert texts to the types of their parameters: flags, whole numbers, lists with commas and JSON objects. If a
    text does not match the type of its parameter, it stays a text; the database refuses this text and names the
    reason."""
    return {name: _typed(fields[name].type, text) if name in fields else text for name, text in given.items()}


def _typed(type_: str, text: str) -> object:
    match type_:
        case "boolean":
            return _BOOLEANS.get(text, text)
        case "integer":
            return number(text) if WHOLE.fullmatch(text) else text
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


def number(text: str) -> int:
    """Return the number in a text that matches `WHOLE`."""
    return int(text, 16 if text[:2].lower() == "0x" else 10)
