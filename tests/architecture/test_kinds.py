"""The loop runs any kind, and its code names no kind."""

from __future__ import annotations

import re

from farrier.handlers.node.kind import NODE_KIND
from farrier.model.kinds.built_in import BUILT_IN
from tests.architecture import sources

NAMES = (NODE_KIND.name, "maas", *(spec.name for spec in BUILT_IN))
LOOP = sorted(
    path
    for folder in ("schema/functions/loop", "schema/functions/history", "sql/loop")
    for path in (sources.FARRIER / "io" / folder).glob("*.sql")
)
CONTROLLER = sorted((sources.FARRIER / "controller").rglob("*.py"))


def named_in(text: str) -> list[str]:
    """The kinds whose name is a word of the text, or a part of a longer name in it."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    return [name for name in NAMES if re.search(rf"(?<![a-z]){name}s?(?![a-z])", words)]


def test_no_line_of_the_controller_names_a_kind() -> None:
    assert CONTROLLER
    found = {path.name: named_in(path.read_text(encoding="utf-8")) for path in CONTROLLER}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}


def test_no_sql_of_the_loop_and_of_history_has_a_case_for_a_kind() -> None:
    literals = re.compile("|".join(f"'{name}'" for name in NAMES))
    assert LOOP
    assert {path.name: found for path in LOOP if (found := literals.findall(path.read_text(encoding="utf-8")))} == {}


def test_a_kind_is_found_wherever_it_is_named() -> None:
    assert named_in("class NodeKind: ...") == ["node"]
    assert named_in("if kind == 'maas_region':") == ["maas", "maas_region"]
    assert named_in("nodes = 1") == ["node"]
    assert named_in("the nodely anode") == []
