"""A number with its noun, in the singular or the plural."""

from __future__ import annotations

import re

_WITH_ES = re.compile(r"(s|x|z|ch|sh)$")
_WITH_IES = re.compile(r"(?<=[^aeiou])y$")


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `0 addresses`, `3 entries`."""
    return f"{number} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if _WITH_ES.search(noun):
        return f"{noun}es"
    return _WITH_IES.sub("ie", noun) + "s"
