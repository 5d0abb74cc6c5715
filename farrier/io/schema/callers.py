"""Finds out whether a program for one schema can work with another schema, by comparing signatures, views and rights.

The plan of a migration uses this module. The module compares the texts of files and does not parse SQL. If the module
does not understand a difference, the difference counts as breaking: a needless stop of replicas costs less than
replicas that fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from typing_extensions import override

from farrier.io.schema.files import rights_of

# Strings are kept, because they may contain two dashes.
_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*")
_SIGNATURE = re.compile(
    r"FUNCTION farrier\.\w+ ?\((?P<parameters>[^;$]*?)\)(?: RETURNS (?P<result>[^;$]*?))? (?:LANGUAGE|AS|RETURN) "
)
# A comma outside of parentheses. Parentheses are not nested here.
_COMMA = re.compile(r", ?(?![^()]*\))")
_DEFAULT = re.compile(r" DEFAULT .*")
# Parameters that return a value, or that accept any number of arguments.
_OTHER_MODE = re.compile(r"\b(?:OUT|INOUT|VARIADIC)\b")
_VIEW = re.compile(r"CREATE OR REPLACE VIEW farrier\.\w+\s+AS\s(?P<query>.*)", re.DOTALL)
_REVOKE = re.compile(r"REVOKE (.* ON .*) FROM (.*?)(?: CASCADE)?$")


class Signature(msgspec.Struct, frozen=True):
    """The parameters and the result of a function."""

    parameters: tuple[str, ...]
    result: str

    @override
    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}){f' RETURNS {self.result}' if self.result else ''}"

    @property
    def is_trigger(self) -> bool:
        """Whether this is a trigger function, which no program calls."""
        return self.result == "trigger"

    def replaces(self, other: Signature) -> bool:
        """Return whether CREATE OR REPLACE accepts this signature for a function that has the signature `other`. Only
        defaults may differ or be added."""
        pairs = list(zip(self.parameters, other.parameters, strict=False))
        return (
            (self.result, len(self.parameters)) == (other.result, len(other.parameters))
            and all(_DEFAULT.sub("", mine) == _DEFAULT.sub("", before) for mine, before in pairs)
            and all(_DEFAULT.search(mine) for mine, before in pairs if _DEFAULT.search(before))
        )

    def serves(self, other: Signature) -> bool:
        """Return whether this signature accepts every call that the signature `other` accepts, and returns the same
        type."""
        kept = Signature(self.parameters[: len(other.parameters)], self.result)
        added = self.parameters[len(other.parameters) :]
        return kept.replaces(other) and all(_DEFAULT.search(each) and not _OTHER_MODE.search(each) for each in added)


def signature(source: str) -> Signature | None:
    """Return the signature in a function's file; None if the file does not follow the style of farrier's files."""
    found = _SIGNATURE.search(_line(source))
    if found is None or " LANGUAGE " in found["parameters"]:
        return None
    parameters = found["parameters"]
    return Signature(tuple(_COMMA.split(parameters)) if parameters else (), found["result"] or "")


def query(source: str) -> str | None:
    """Return the query in a view's file; None if the file does not follow the style of farrier's files."""
    found = _VIEW.search(source)
    return found["query"].rstrip().removesuffix(";") if found else None


def lost_rights(before: Iterable[str], after: Iterable[str]) -> list[tuple[str, str]]:
    """Return each role that loses a right, with this right. A role loses a right if only the files of `before` grant
    the right, or if only the files of `after` revoke the right. A statement that cannot be parsed is returned with an
    empty role, unless both sets of files have the statement."""
    old, new = ([line for text in texts for line in _statements(text)] for texts in (before, after))
    lost = (_granted(old) - _granted(new)) | (_granted(_revokes(new)) - _granted(_revokes(old)))
    lost |= {(line, "") for line in _unreadable(old) ^ _unreadable(new)}
    return sorted((role, right) for right, role in lost)


def _granted(lines: Iterable[str]) -> set[tuple[str, str]]:
    return {right for line in lines for right in rights_of(line)}


def _revokes(lines: Iterable[str]) -> list[str]:
    """Return the REVOKE statements, each converted to the GRANT of the same right."""
    return [_REVOKE.sub(r"GRANT \1 TO \2", line) for line in lines if _REVOKE.fullmatch(line)]


def _unreadable(lines: Iterable[str]) -> set[str]:
    return {line for line in lines if not rights_of(line) and not _REVOKE.fullmatch(line)}


def _statements(text: str) -> list[str]:
    return [line for part in _line(text).split(";") if (line := part.strip())]


def _line(text: str) -> str:
    """Return a text without comments, on one line."""
    return " ".join(_COMMENT.sub(lambda found: found[1] or "", text).split())
