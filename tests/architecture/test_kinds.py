"""The loop runs any kind and names none."""

from __future__ import annotations

import re

from farrier.handlers.maas_region import REGION_KIND
from farrier.handlers.node import NODE_KIND
from farrier.model.built_in import BUILT_IN
from tests.architecture import sources

NAMES = (NODE_KIND.name, REGION_KIND.name, "maas", *(spec.name for spec in BUILT_IN))
CONTROLLER = sorted((sources.FARRIER / "controller").rglob("*.py"))


def named_in(text: str) -> list[str]:
    """Kinds that a text has a word of, be it a part of a longer name."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    return [name for name in NAMES if re.search(rf"(?<![a-z]){name}s?(?![a-z])", words)]


def test_no_line_of_the_controller_names_a_kind() -> None:
    assert CONTROLLER
    found = {path.name: named_in(path.read_text(encoding="utf-8")) for path in CONTROLLER}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}


def test_a_kind_is_found_wherever_it_is_named() -> None:
    assert named_in("class NodeKind: ...") == ["node"]
    assert named_in("if kind == 'maas_region':") == ["maas_region", "maas"]
    assert named_in("nodes = 1") == ["node"]
    assert named_in("the nodely anode") == []
