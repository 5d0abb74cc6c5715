"""Other releases than this one: its own schema with some files changed, left out or added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from farrier.io import migrate
from farrier.io.schema_files import BASELINE, ObjectKind, Schema, SchemaObject, Step, Table

# What becomes of a file: another text, an edit of the one that is there, or nothing.
Change: TypeAlias = str | Callable[[str], str] | None


def schema(
    objects: Mapping[str, Change] | None = None,
    *,
    tables: Mapping[str, Change] | None = None,
    steps: Sequence[str] = (),
    release: str,
) -> Schema:
    """`objects` are named KIND NAME, as `farrier db check` names them."""
    this = migrate.carried()
    texts = {str(each): each.source for each in this.objects}
    table_texts = {each.name: each.source for each in this.tables}
    return Schema(
        tables=tuple(Table(name, text) for name, text in _changed(table_texts, tables or {}).items()),
        objects=tuple(_object(name, text) for name, text in _changed(texts, objects or {}).items()),
        steps=tuple(Step(number, "toy", sql, True) for number, sql in enumerate(steps, BASELINE + 1)),
        release=release,
    )


def instead(old: str, new: str) -> Callable[[str], str]:
    """An edit of a file; fails where there is nothing to edit any more."""

    def edit(text: str) -> str:
        assert old in text, f"{old!r} is not in {text!r}"
        return text.replace(old, new)

    return edit


def _changed(texts: Mapping[str, str], changes: Mapping[str, Change]) -> dict[str, str]:
    changed = dict(texts)
    for name, change in changes.items():
        text = change(changed[name]) if callable(change) else change
        changed.pop(name, None)
        if text is not None:
            changed[name] = text
    return dict(sorted(changed.items()))


def _object(name: str, text: str) -> SchemaObject:
    kind, _, called = name.partition(" ")
    return SchemaObject(ObjectKind(kind), called, "", text)
