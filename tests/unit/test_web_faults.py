"""The error for a wrong parameter or body is one line with the field, the value, and what is accepted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from farrier.model.node.details import FAULT
from farrier.web.api.faults import explain


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    colour: Colour = Colour.BLUE
    parts: tuple[Part, ...] = ()
    names: tuple[str, ...] | None = None
    on: bool = False
    share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0
    word: Annotated[str, msgspec.Meta(max_length=3, extra={FAULT: "{value} is no word"})] = ""
    secret: Annotated[str, msgspec.Meta(pattern="^env:", extra={FAULT: "must be a reference"})] = "env:"
    anything: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"colour": "green"}, "colour must be one of red, blue, not 'green'"),
        ({"parts": [{"size": 3}, {"size": 10}]}, "parts[1].size must be a whole number from 1 to 9, not 10"),
        ({"parts": [{}]}, "parts[0]: Object missing required field `size`"),
        ({"parts": [{"size": 1, "weight": 2}]}, "parts[0]: Object contains unknown field `weight`"),
        ({"parts": 7}, "parts must be a list, each a JSON object, not 7"),
        ({"names": [1]}, "names[0] must be a text, not 1"),
        ({"names": "x"}, "names must be a list, each a text, not 'x'"),
        ({"on": "yes"}, "on must be true or false, not 'yes'"),
        ({"on": None}, "on must be true or false, not null"),
        ({"names": [True]}, "names[0] must be a text, not true"),
        ({"on": {"at": [None, False]}}, 'on must be true or false, not {"at": [null, false]}'),
        ({"share": 10**30}, f"share must be a number from 0 to 0.5, not {10**30}"),
        ({"share": 2}, "share must be a number from 0 to 0.5, not 2"),
        ({"word": "long"}, "word 'long' is no word"),
        ({"secret": "hunter2"}, "secret must be a reference"),
        ({"anything": "x" * 200}, f"anything must be a JSON object, not '{'x' * 79}…"),
        ({"colur": "red"}, "Object contains unknown field `colur`"),
        ([], "expected a JSON object, not []"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_accepted(given: object, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert(given, Whole)
    assert explain(wrong.value, given, Whole) == said
