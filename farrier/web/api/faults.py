"""Error texts for parameters and bodies that do not have the declared type. A text contains the field, the value, and
the accepted values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from farrier.model.node.details import FAULT

_AT = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<place>\d+)\]|\[\.\.\.\]")
# If a longer value were shown, the rest of the line would be hard to find.
_SHOWN = 80
_LISTS = (msgspec.inspect.VarTupleType, msgspec.inspect.ListType)


def explain(error: msgspec.ValidationError, given: object, type_: Any, *, in_body: bool = True) -> str:
    """Return one line about a value that does not have the type. `given` is the whole value as plain JSON. If `in_body`
    is true, the text contains the position of the value in a list. If `in_body` is false, the value is from a
    parameter, and the text omits the position."""
    text = str(error)
    at = _AT.search(text)
    path = at["path"] if at else ""
    type_info = msgspec.inspect.type_info(type_)
    if path.endswith("[...]"):
        path = _with_key(path.removesuffix("[...]"), given, type_info)
    value, info, is_known = _walk(path, given, type_info)
    name = path.removeprefix(".") if in_body else path.removeprefix(".").partition("[")[0]
    if not is_known or (_fields(info) and isinstance(value, Mapping)):  # an object whose fields are wrong
        what = text[: at.start()] if at else text
        return f"{name}: {what}" if name else what
    text = _text(value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    fault = _fault(info)
    if fault:
        # The text for a reference has no place for the value, because the value may be the secret itself.
        return f"{name} {fault.replace('{value}', shown)}"
    return f"{name} must be {expected(info)}, not {shown}" if name else f"expected {expected(info)}, not {shown}"


def _text(value: object) -> str:
    """Return a text in quotes, and any other value as the client wrote it in JSON."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def expected(info: msgspec.inspect.Type) -> str:
    """Return a text with the accepted values of a type."""
    match info:
        case msgspec.inspect.Metadata():
            return expected(info.type)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            size = "" if info.max_length is None else f" of {info.min_length or 0} to {info.max_length}"
            return f"a list{size}, each {expected(info.item_type)}"
        case msgspec.inspect.UnionType():
            # The text of the accepted values need not mention that a value may be omitted.
            return " or ".join(expected(each) for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
        case _:
            return _expected_plain(info)


def _expected_plain(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType():
            return f"a whole number{_range(info.ge, info.le)}"
        case msgspec.inspect.FloatType():
            return f"a number{_range(info.ge, info.le)}"
        case msgspec.inspect.StrType():
            return (
                "a text"
                if info.max_length is None
                else f"a text of {info.min_length or 0} to {info.max_length} characters"
            )
        case msgspec.inspect.EnumType():
            return f"one of {', '.join(str(member.value) for member in info.cls)}"
        case _:
            return "a JSON object"


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return "" if least is None else f" of at least {least}"
    return f" from {least or 0} to {most}"


def _fault(info: msgspec.inspect.Type) -> str:
    """Return the error text that a type defines for wrong values; empty if it defines none."""
    annotated = (each for each in parts(info) if isinstance(each, msgspec.inspect.Metadata))
    return next((str(each.extra[FAULT]) for each in annotated if each.extra and FAULT in each.extra), "")


def _with_key(path: str, given: Any, info: msgspec.inspect.Type) -> str:
    """Return the path of the first value of an object that is not a text, because msgspec does not name its key."""
    found, _, _ = _walk(path, given, info)
    if not isinstance(found, Mapping):
        return f"{path}[...]"
    return f"{path}.{next((key for key, value in found.items() if not isinstance(value, str)), '')}"


def _walk(path: str, value: Any, info: msgspec.inspect.Type) -> tuple[Any, msgspec.inspect.Type, bool]:
    """Return the value and the type at a path, and whether both are known."""
    for step in _STEP.finditer(path):
        name, place = step["name"], step["place"]
        if name is not None and isinstance(value, Mapping) and name in value:
            below = _fields(info).get(name) or _value(info)
            value = value[name]
        elif place is not None and isinstance(value, Sequence) and int(place) < len(value):
            below = _item(info)
            value = value[int(place)]
        else:
            return value, info, False
        if below is None:
            return value, info, False
        info = below
    return value, info, True


def _fields(info: msgspec.inspect.Type) -> Mapping[str, msgspec.inspect.Type]:
    structs = [each for each in parts(info) if isinstance(each, msgspec.inspect.StructType)]
    return {field.encode_name: field.type for each in structs for field in each.fields}


def _value(info: msgspec.inspect.Type) -> msgspec.inspect.Type | None:
    return next((each.value_type for each in parts(info) if isinstance(each, msgspec.inspect.DictType)), None)


def _item(info: msgspec.inspect.Type) -> msgspec.inspect.Type | None:
    return next((each.item_type for each in parts(info) if isinstance(each, _LISTS)), None)


def parts(info: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """Yield a type. If it is an annotated type or a union, also yield the types in it."""
    yield info
    match info:
        case msgspec.inspect.Metadata():
            yield from parts(info.type)
        case msgspec.inspect.UnionType():
            for each in info.types:
                yield from parts(each)
        case _:
            pass
