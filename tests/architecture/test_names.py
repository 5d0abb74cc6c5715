"""A folder of the package has few modules, and the name of a class means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.architecture import sources
from tools import packages

# A sentence such as `Connections: a DSN goes in; sessions come out.`, or `Commands of x: take names, and print lists.`
FLOW = re.compile(r"[^:]+: (?=.*\b(?:takes?|go(?:es)? in)\b).{20,180}\.")
MOST_MODULES = 24
PACKAGE = sources.modules(sources.FARRIER)
# A simulated service names its objects as the service does, so `sim` may repeat names of the rest.
SIMULATED = sources.FARRIER / "sim"
ALLOWED = {
    "Fabrics": "the protocol, and its implementation",
    "Regions": "the protocol, and its implementation",
    "Problem": "RFC 9457: the server writes it, and the client reads it",
}
"""Names of two classes, with the reason."""


def test_a_folder_has_few_modules() -> None:
    modules = defaultdict(set)
    for module in PACKAGE:
        modules[module.path.parent.relative_to(sources.ROOT).as_posix()].add(module.path.stem)
    assert not {folder: len(names) for folder, names in modules.items() if len(names - {"__init__"}) > MOST_MODULES}


def test_a_name_of_a_class_means_one_thing() -> None:
    places = defaultdict(list)
    for module in PACKAGE:
        if SIMULATED not in module.path.parents:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(module.at(node))
    repeated = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in repeated.items() if name not in ALLOWED} == {}
    assert not ALLOWED.keys() - repeated.keys(), "no longer repeated"


def test_each_folder_says_in_one_sentence_what_enters_and_what_leaves_it() -> None:
    """docs/architecture.md shows the first sentence of each folder."""
    sentences = {m.name: packages.sentence(m.path) for m in PACKAGE if m.path.name == "__init__.py"}
    del sentences["farrier/__init__.py"]
    assert not {name: sentence for name, sentence in sentences.items() if not FLOW.fullmatch(sentence)}
