"""Values of parameters before an intent is submitted: converts the texts that users type, and finds values that break
the model's rules. The database checks the same rules (`farrier.param_fault`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from farrier.model.intents.params import FieldRules, ParamsRules

# Largest number of characters of a value that an error repeats.
_SHOWN = 80
_BOOLEANS = {"true": True, "false": False}
WHOLE = re.compile(r"-?[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}")
"""A whole number that fits into 64 bits; 0x means hexadecimal."""
_TYPES = {
    "boolean": (bool, "must be true or false"),
    "object": (Mapping, "must be a JSON object"),
    "struct": (Mapping, "must be a JSON object"),
    "array": (list | tuple, "must be an array"),
    "string": (str, "must be a string"),
    "enum": (str, "must be a string"),
}


def faults(schema: ParamsRules, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parameter's name and the text of each fault. The text completes a sentence that begins with this name.
    If a fault concerns several parameters, the name is empty."""
    for name, value in given.items():
        text = fault(schema.fields[name], value) if name in schema.fields else "is unknown"
        if text is not None:
            yield name, text
    for name, field in schema.fields.items():
        if field.required and name not in given:
            yield name, "is missing"
    if schema.any_of and not any(name in given for name in schema.any_of):
        yield "", f"at least one of these is needed: {', '.join(schema.any_of)}"
    for flag, other in schema.needs.items():
        if given.get(flag) is True and other not in given:
            yield other, f"is required with {flag}"


def fault(field: FieldRules, value: object) -> str | None:
    """Return the fault of one value; None if the value is valid. The fault is a text that completes a sentence
    beginning with the name of the parameter."""
    if field.type in ("integer", "number"):
        return _of_number(field, value)
    type_, text = _TYPES[field.type]
    if not isinstance(value, type_):
        return text if type_ is str else f"{text}, got {_shown(value)}"  # a text may be a secret
    if isinstance(value, list | tuple):
        return _of_array(field, value)
    if isinstance(value, Mapping):
        return _of_object(field, value) if field.schema is None else _of_struct(field.schema, value)
    return _of_text(field, value) if isinstance(value, str) else None


def _of_number(field: FieldRules, value: object) -> str | None:
    types, text = (int, "a whole number") if field.type == "integer" else (int | float, "a number")
    if not isinstance(value, types) or isinstance(value, bool):
        return f"must be {text}, got {_shown(value)}"
    if field.min is not None and value < field.min:
        return f"must be {field.min} or more, got {value}"
    if field.max is not None and value > field.max:
        return f"must be {field.max} or less, got {value}"
    return None


def _of_array(field: FieldRules, value: list[Any] | tuple[Any, ...]) -> str | None:
    if field.max is not None and len(value) > field.max:
        return f"has more than {field.max} elements"
    found = (fault(field.items, element) for element in value) if field.items is not None else iter(())
    return next((f"has an element that {text}" for text in found if text is not None), None)


def _of_object(field: FieldRules, value: Mapping[str, Any]) -> str | None:
    if field.items is None:
        return None
    for key, each in sorted(value.items()):
        if (text := fault(field.items, each)) is not None:
            return f"has the value {_shown(each)} for {key!r}, which {text}"
    return None


def _of_struct(schema: ParamsRules, value: Mapping[str, Any]) -> str | None:
    return next((f"has a field {name} that {text}" for name, text in faults(schema, value)), None)


def _of_text(field: FieldRules, value: str) -> str | None:
    if field.enum and value not in field.enum:
        return f"must be one of {', '.join(field.enum)}, got {_shown(value)}"
    if field.max is not None and len(value) > field.max:
        return f"is longer than {field.max} characters"
    if field.pattern is None or re.search(field.pattern, value):
        return None
    if field.fault is not None:
        return field.fault.replace("{value}", repr(value[:_SHOWN]))
    return "is empty" if not value.strip() else f"does not match {field.pattern}, got {_shown(value)}"


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()[:_SHOWN]


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
