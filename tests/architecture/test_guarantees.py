"""Each promise on docs/guarantees.md names tests that exist."""

from __future__ import annotations

import ast
import re

from tests.architecture import sources

PAGE = sources.ROOT / "docs" / "guarantees.md"
ROW = re.compile(r"^\| (?!promise|---)(.+?) \| .+ \| (.+) \|$", re.MULTILINE)
DEFINED = {
    node.name
    for module in sources.modules(sources.TESTS)
    for node in ast.walk(module.tree)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
}


def test_each_promise_names_tests_that_exist() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 10
    unknown = {promise: set(re.findall(r"`(\w+)`", tests)) - DEFINED for promise, tests in rows}
    assert not {promise: names for promise, names in unknown.items() if names}
    assert all(re.search(r"`test_\w+`", tests) for _, tests in rows)
