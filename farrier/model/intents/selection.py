"""Selects resources by name and by label: globs such as `gpu-1*`, and tests of labels such as `rack=r7,!spare`.

Pure. The command line, the API and the pages parse the texts with this module; the SQL of lists applies the result.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec
from typing_extensions import override

_WILD = re.compile(r"[*?\[]")
# A wildcard, a set of characters, or one literal character.
_PIECE = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
# The characters of names; the hyphen is first, as a set of a regular expression requires.
_CHARACTERS = f"-._{string.digits}{string.ascii_letters}"
# Characters that sort before and after all characters of names.
_LOWEST, _HIGHEST = "\x01", "\x7f"
# A name has 253 characters at most; PostgreSQL refuses regular expressions of some thousands.
_LONGEST = 1000
LARGEST_ID = (1 << 63) - 1
"""The largest bigint of PostgreSQL."""
# Largest number of digits of an ID, so that every ID fits into a bigint.
_DIGITS = 18
_TEST = re.compile(r"(?P<absent>!?)(?P<key>[^!=,]+)(?:(?P<compare>!=|==?)(?P<value>[^,]*))?")


class NameRange(msgspec.Struct, frozen=True):
    """Names from `first` (inclusive) to `beyond` (exclusive), in byte order, that match a regular expression of
    PostgreSQL."""

    first: str
    beyond: str
    pattern: str


ANY_NAME = NameRange("", _HIGHEST, "")
_NO_NAME = NameRange("", "", "^$")


class LabelTest(msgspec.Struct, frozen=True):
    """A test of a resource's labels: whether the label exists and, with `value`, whether the label has this value.
    `negated` inverts the result."""

    key: str
    value: str | None = None
    negated: bool = False

    @override
    def __str__(self) -> str:
        """Return the text from which `label_tests` makes this test."""
        if self.value is None:
            return f"!{self.key}" if self.negated else self.key
        return f"{self.key}{'!=' if self.negated else '='}{self.value}"


def is_glob(text: str) -> bool:
    """Return whether the text may match several names, because it contains `*`, `?` or `[`."""
    return _WILD.search(text) is not None


def is_id(text: str) -> bool:
    """Return whether the text is an ID. No name consists of digits only."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


def how_to_find(kind: str) -> str:
    """Return the hint for a name or an ID that no resource of this kind has."""
    listed = "the nodes" if kind == "node" else f"the resources of kind {kind}"
    return f"list {listed} to find its name"


def name_range(text: str) -> NameRange:
    """Return the names that a name or a glob matches. `*` matches any characters, `?` one character, `[a-c]` one
    character of the set, `[!a]` one character outside the set. A text that no name can match gives an empty range."""
    if not text or len(text) > _LONGEST:
        return _NO_NAME
    wild = _WILD.search(text)
    fixed = text[: wild.start()] if wild else text
    pieces = [_expression(piece) for piece in _PIECE.findall(text)]
    if not all(pieces):
        return _NO_NAME
    if wild is None:
        return NameRange(text, text + _LOWEST, "")
    return NameRange(fixed, fixed + _HIGHEST, f"^{''.join(pieces)}$")


def _expression(piece: str) -> str:
    """Return the regular expression for one piece of a glob; empty if the piece matches no character that names may
    contain."""
    if piece.startswith("*"):
        return ".*"
    if piece == "?":
        return "."
    members = "".join(character for character in _CHARACTERS if fnmatchcase(character, piece))
    return f"[{members}]" if members else ""


def label_tests(texts: Iterable[str]) -> tuple[LabelTest, ...]:
    """Parse tests of labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE, separated by commas. A resource without the label
    passes KEY!=VALUE. Raises ValueError."""
    return tuple(_label_test(part.strip()) for text in texts for part in text.split(","))


def _label_test(text: str) -> LabelTest:
    found = _TEST.fullmatch(text)
    if found is None or not text.isprintable() or (found["absent"] and found["compare"]):
        raise ValueError(f"expected KEY, !KEY, KEY=VALUE or KEY!=VALUE, got {text!r}")
    negated = bool(found["absent"]) or found["compare"] == "!="
    return LabelTest(found["key"].strip(), found["value"], negated)
