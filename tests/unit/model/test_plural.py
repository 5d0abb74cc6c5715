"""A number agrees with its noun."""

from __future__ import annotations

import pytest

from farrier.model.plural import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "node", "0 nodes"),
        (1, "node", "1 node"),
        (2, "node", "2 nodes"),
        (1, "network segment", "1 network segment"),
        (2, "address", "2 addresses"),
        (2, "switch", "2 switches"),
        (2, "entry", "2 entries"),
        (2, "key", "2 keys"),
    ],
)
def test_a_noun_is_in_the_singular_after_one_only(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text
