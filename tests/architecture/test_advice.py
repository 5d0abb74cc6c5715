"""Intents are recommended as data (`model.recommended`), so that a test can ask the handler about each of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from farrier.model.intents.actions import Action
from tests.architecture import sources

PACKAGE = sources.modules(sources.FARRIER)
# The renderer, and the definitions of edges, states and effects, which say what happens after an intent.
DEFINITIONS = frozenset(
    f"farrier/model/{name}.py"
    for name in (
        *("advice/recommended", "node/edges", "node/conditions"),
        *("partition/partition", "maas/region", "network/segment"),
    )
)
_ANY = "|".join(sorted(Action, key=len, reverse=True))
_LONG = "|".join(action for action in Action if "_" in action)
NAMED = re.compile(rf"submit (?:{_ANY})\b|`(?:{_ANY})`|(?<![\w.-])(?:{_LONG})(?![\w.-])")


def texts(module: sources.Module) -> Iterator[ast.Constant]:
    """The texts of a module that have several words, without docstrings."""
    unread = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
        if is_text and isinstance(node, ast.Constant) and id(node) not in unread:
            yield node


def test_no_text_names_an_intent_outside_the_renderer() -> None:
    found = [
        f"{module.at(text)}: {text.value!r}"
        for module in PACKAGE
        if module.name not in DEFINITIONS
        for text in texts(module)
        if NAMED.search(str(text.value))
    ]
    assert found == [], "use Recommended, or describe what has to be done outside farrier"


def test_the_lint_finds_each_form_of_a_named_intent() -> None:
    wrong = ("then submit cancel", "use `delete` here", "correct it with set_bmc", "first retry_stage, then wait")
    assert all(NAMED.search(text) for text in wrong)
    assert not NAMED.search("cancel the onboarding, and read farrier.retry_stages of the log")
