"""Writes rules as YAML for Prometheus. Supports only mappings, sequences and texts of one line.

Every text is quoted, so that no parser reads it as a number, a boolean or a comment. If a text cannot be quoted on one
line, ValueError is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_KEY = re.compile(r"[a-z_]+")


def yaml(value: Mapping[str, Any]) -> str:
    """Return the mapping as a YAML document. Raises ValueError for a value that this subset of YAML cannot
    represent."""
    return "".join(f"{line}\n" for line in _mapping(value))


def _mapping(value: Mapping[str, Any]) -> Iterator[str]:
    for key, held in value.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key consists of lower-case letters and underscores; got {key!r}")
        if isinstance(held, str):
            yield f"{key}: {_quoted(held)}"
        else:
            yield f"{key}:"
            yield from (f"  {line}" for line in _block(held))


def _block(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _mapping(value)
    elif isinstance(value, Sequence):
        for element in value:
            first, *rest = _mapping(element)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        raise ValueError(f"expected a text, a mapping or a sequence of mappings, got {value!r}")


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"expected one line of printable characters; got {text!r}")
    return "'" + text.replace("'", "''") + "'"
