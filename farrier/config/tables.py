"""Reads a TOML table into a struct and reports all its faults, not only the first.

`site_files` uses this module for files with nested tables; `reading` reads the main configuration. A fault names the
table and the key, what was expected and what was found. A fault never contains the value of a key that refers to a
secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from typing_extensions import override

from farrier.config.reading import nearest, one_of, read_duration
from farrier.log import mask_urls

_T = TypeVar("_T", bound=msgspec.Struct)

# The values of these keys are not shown, because the file may contain the secret itself instead of a reference.
_NOT_SHOWN = frozenset({"key", "credential", "token", "sha256"})
_SHOWN = 60


class Fault(NamedTuple):
    """A fault of a file. `where` is a table, or a table and a key if the fault concerns one key: `[network.bonds 2]
    mtu`."""

    where: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class Reader:
    """Reads the tables of one file. `faults` are the faults found so far, and `derived` are the fields that no file
    sets."""

    def __init__(self, derived: frozenset[tuple[type[Any], str]] = frozenset()) -> None:
        self.faults: list[Fault] = []
        self._derived = derived

    def struct(self, wanted: type[_T], table: object, path: str = "") -> _T | None:
        """Read a table into a struct. Returns None if the table has a fault."""
        before = len(self.faults)
        if not isinstance(table, Mapping):
            self._fault(path, "", f"expected a table, got {_kind(table)}")
            return None
        hints = get_type_hints(wanted, include_extras=True)
        known = [field for field in msgspec.structs.fields(wanted) if (wanted, field.name) not in self._derived]
        names = [field.name for field in known]
        for key in table:
            if key not in names:
                self._fault(path, "", f"unknown key {key!r}; {nearest(key, names)}")
        ready: dict[str, Any] = {}
        for field in known:
            if field.name in table:
                ready[field.name] = self._value(hints[field.name], table[field.name], path, field.name)
            elif field.required:
                self._fault(path, field.name, f"is missing; expected: {description(hints[field.name])}")
        if len(self.faults) > before:
            return None
        try:
            return wanted(**ready)
        except (ValueError, OverflowError, RecursionError) as error:  # keys of which only one may be set
            self._fault(path, "", str(error))
            return None

    def _value(self, hint: Any, value: object, path: str, key: str) -> Any:
        type_, inner = meant(hint)
        below = f"{path}.{key}" if path else key
        if is_struct(type_):
            return self.struct(type_, value, below)
        if is_struct(inner):
            return self._structs(inner, value, path, key)
        try:
            return read_duration(value) if type_ is timedelta else msgspec.convert(value, hint)
        except (ValueError, OverflowError) as error:
            self._fault(path, key, _expected(str(error), hint, type_) + _came(key, value))
            return None

    def _structs(self, wanted: type[msgspec.Struct], value: object, path: str, key: str) -> Any:
        below = f"{path}.{key}" if path else key
        if not isinstance(value, list):
            self._fault(path, key, f"expected tables [[{below}]], got {_kind(value)}")
            return None
        return tuple(self.struct(wanted, table, f"{below} {number}") for number, table in enumerate(value, start=1))

    def _fault(self, path: str, key: str, text: str) -> None:
        self.faults.append(Fault(place(path, key), text))


def place(path: str, key: str = "") -> str:
    """Return the location of a fault in the form that messages show, such as `[deploy] bootstrap_ttl`."""
    return f"{f'[{path}]' if path else ''} {key}".strip()


def meant(hint: Any) -> tuple[Any, Any]:
    """Return the type without annotations and `| None`. For a tuple, return the type of its elements."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif get_origin(hint) in (Union, UnionType):
            rest = [each for each in get_args(hint) if each is not type(None)]
            if len(rest) != 1:
                return hint, None
            (hint,) = rest
        else:
            return hint, get_args(hint)[0] if get_origin(hint) is tuple else None


def is_struct(type_: Any) -> bool:
    """Return whether values of the type are read from a table."""
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def description(hint: Any) -> str:
    """Return the description in a field's annotation."""
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        found = [extra.description for extra in extras if isinstance(extra, msgspec.Meta) and extra.description]
        return found[-1] if found else description(inner)
    return next(filter(None, map(description, get_args(hint))), "")


def _expected(text: str, hint: Any, type_: Any) -> str:
    if values := one_of(type_):
        return values
    if "matching regex" in text and description(hint):  # the pattern itself is meant for programmers
        return f"expected: {description(hint).removesuffix('.')}"
    return text


def _came(key: str, value: object) -> str:
    if key in _NOT_SHOWN or isinstance(value, Mapping | list):
        return ""
    return f"; got {mask_urls(str(value))[:_SHOWN]!r}" if isinstance(value, str) else f"; got {_kind(value)} {value}"


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case Mapping():
            return "a table"
        case _:
            return f"a {type(value).__name__}"
