"""JSON that cannot be decoded is replaced by a marker, and nothing else is changed."""

from __future__ import annotations

from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from farrier.errors import UndecodableState
from farrier.io import codec

WHOLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
)
read = codec.reader(dict[str, Any], "a thing")


def nested(levels: int, inside: str = "") -> str:
    return "[" * levels + inside + "]" * levels


@hypothesis.given(WHOLE)
def test_json_that_can_be_decoded_is_not_changed(value: Any) -> None:
    text = msgspec.json.encode(value).decode()
    assert codec.legible(text) == text


@pytest.mark.parametrize("levels", [1100, 3000, 50_000])
def test_only_the_part_that_is_nested_too_deeply_becomes_a_text(levels: int) -> None:
    value = read(f'{{"before": 1, "deep": {nested(levels, "1, 2")}, "after": [{{}}, "]]"]}}')
    assert (value["before"], value["after"]) == (1, [{}, "]]"])
    assert "nested too deeply" in str(value["deep"])


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "9" * 5000 + ".5", "1e" + "9" * 400])
def test_only_a_number_that_is_too_long_becomes_a_text(number: str) -> None:
    value = read(f'{{"a": {number}, "b": "{number}", "c": [{number}, 7]}}')
    marker = "(a number too long to be read)"
    assert value == {"a": marker, "b": number, "c": [marker, 7]}


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "nothing", nested(3000), '{"a": ' + "9" * 5000, b"\xff\xfe", "9" * 5000]
)
def test_undecodable_json_raises_an_error_that_names_its_source(text: str | bytes) -> None:
    with pytest.raises(UndecodableState, match="a thing"):
        read(text)
