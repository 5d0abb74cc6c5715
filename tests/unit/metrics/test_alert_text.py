"""The alert rules as YAML."""

from __future__ import annotations

import pytest

from farrier.metrics.alerts.rules import yaml


def test_mappings_and_sequences_are_indented() -> None:
    value = {"groups": [{"name": "a", "rules": [{"alert": "x", "labels": {"severity": "page"}}, {"alert": "y"}]}]}
    assert yaml(value).splitlines() == [
        "groups:",
        "  - name: 'a'",
        "    rules:",
        "      - alert: 'x'",
        "        labels:",
        "          severity: 'page'",
        "      - alert: 'y'",
    ]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("no", "'no'"), ("5", "'5'"), ("it's # a: b", "'it''s # a: b'"), ('{{ "x" }} \\n', "'{{ \"x\" }} \\n'")],
)
def test_a_string_is_quoted_so_that_it_stays_a_string(text: str, quoted: str) -> None:
    assert yaml({"key": text}) == f"key: {quoted}\n"


@pytest.mark.parametrize("value", [{"key": "two\nlines"}, {"a: b": "x"}, {"key": 5}, {"key": None}])
def test_a_value_that_the_format_cannot_express_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"one line|lower-case letters|expected a text"):
        yaml(value)
