"""Encodes JSON for the database, and decodes JSON from it. JSON that cannot be decoded raises `UndecodableState`.

Every `rows.Rows` and all queries for display use this module, so that an unreadable value affects only one resource or
row. The database refuses values of nodes that Python cannot decode. Other values can be unreadable: a JSON parameter of
an intent for a kind of another package, or a row that was edited by hand. If only a part of a value is unreadable, a
text replaces this part, so that lists still show the node and the node still accepts the intent `cancel`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from farrier.errors import UndecodableState

T = TypeVar("T")

Reader: TypeAlias = Callable[[bytes | str], T]

# The database accepts values of up to 64 levels, and a snapshot adds some. Python decodes fewer than a thousand levels.
_DEEPEST = 100
# The limit in digits. The largest float has 309 digits, and Python refuses to convert more than 4300.
_LONGEST = 309

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]|-?[0-9][0-9.eE+-]*', re.DOTALL)
_TOO_DEEP = '"(nested too deeply to be read)"'
_TOO_LONG = '"(a number too long to be read)"'

_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> str:
    """Return the JSON text of a value."""
    return _encode(value).decode()


def reader(type_: type[T], what: str) -> Reader[T]:
    """Return a function that decodes one JSON text as `type_`. The returned function raises only UndecodableState; the
    text of the error contains `what`."""
    decode = msgspec.json.Decoder(type_).decode

    def read(text: bytes | str) -> T:
        """Decode a JSON text. If that fails, decode it again, with a text in place of each part that cannot be
        decoded."""
        try:
            return decode(text)
        except _UNREADABLE:
            pass
        try:
            return decode(legible(text if isinstance(text, str) else text.decode()))
        except _UNREADABLE as error:
            raise UndecodableState(what, str(error)) from error

    return read


def legible(text: str) -> str:
    """Return well-formed JSON in which a text replaces each part that is nested too deeply and each number that is too
    long."""
    kept: list[str] = []
    depth = copied = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept += text[copied : token.start()], _TOO_DEEP
        elif first in "]}":
            if depth == _DEEPEST + 1:
                copied = token.end()
            depth -= 1
        elif first != '"' and depth <= _DEEPEST and token.end() - token.start() > _LONGEST:
            kept += text[copied : token.start()], _TOO_LONG
            copied = token.end()
    return "".join((*kept, text[copied:]))
