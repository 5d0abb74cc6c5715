"""Other releases than this one: its own schema with some files changed, left out or added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from farrier.io.schema import migrate
from farrier.io.schema.files import BASELINE, MigrationStep, ObjectKind, Schema, SchemaObject, TableFile

# The change of a file: its new text, an edit of its text, or None, which removes it.
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
        tables=tuple(TableFile(name, text) for name, text in _changed(table_texts, tables or {}).items()),
        objects=tuple(_object(name, text) for name, text in _changed(texts, objects or {}).items()),
        steps=tuple(MigrationStep(number, "toy", sql, True) for number, sql in enumerate(steps, BASELINE + 1)),
        release=release,
    )


def instead(old: str, new: str) -> Callable[[str], str]:
    """An edit that replaces `old` in a file; fails if the file does not contain it."""

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


# The next release, which is applied while replicas of this release run: nodes get a bay. It adds a column in the middle
# of a table and of a view that replicas read, and a parameter to the function of every commit; the function that writes
# nodes keeps the columns that replicas of this release do not send.
_BAY = "bay text CONSTRAINT nodes_bay CHECK (bay <> ''),  -- where it stands\n"
_BAYS = "CREATE TABLE farrier.bays (name text PRIMARY KEY, height integer NOT NULL DEFAULT 42);\n"
_STEP = f"""-- replicas: go on
    {_BAYS}
    ALTER TABLE farrier.nodes ADD COLUMN bay text CONSTRAINT nodes_bay CHECK (bay <> '');
    INSERT INTO farrier.bays (name) VALUES ('r1'), ('r2');
    UPDATE farrier.nodes SET bay = 'r1' WHERE status = 'active';
    ALTER TABLE farrier.intents ADD COLUMN via text;
    ALTER TABLE farrier.shards ADD COLUMN note text;
"""
_SET_BAY = """-- Says where a node stands.
CREATE OR REPLACE FUNCTION farrier.set_bay(node text, bay text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    UPDATE nodes n SET bay = $2 WHERE n.name = $1
$$;
"""
_GUARD_BAY = """-- Refuses a bay that is not there.
CREATE OR REPLACE FUNCTION farrier.guard_bay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.bays r WHERE r.name = NEW.bay) THEN RAISE EXCEPTION 'no such bay'; END IF;
    RETURN NULL;
END $$;
"""
_GUARD = """
CREATE CONSTRAINT TRIGGER guard_bay AFTER UPDATE OF bay ON farrier.nodes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.bay IS NOT NULL) EXECUTE FUNCTION farrier.guard_bay();
"""


def following() -> Schema:
    columns = "  FROM farrier.nodes n LEFT"
    parameters = "is_volatile boolean"
    return schema(
        {
            "function set_bay": _SET_BAY,
            "function guard_bay": _GUARD_BAY,
            "trigger nodes.guard_bay": _GUARD,
            "function write_nodes": instead("paused = r.paused,", "paused = r.paused, bay = coalesce(r.bay, n.bay),"),
            "function begin_commit": instead(f"{parameters})", f"{parameters}, note text DEFAULT NULL)"),
            "view node_inventory": instead(columns, f"     , n.bay\n{columns}"),
            "view still_clocks": instead("SELECT n.id AS node_id,", "SELECT n.bay, n.id AS node_id,"),
            "rights farrier_intents": instead("farrier.register_node,", "farrier.register_node, farrier.set_bay,"),
            "rights farrier_reader": instead("farrier.nodes,", "farrier.nodes, farrier.bays,"),
        },
        tables={
            "05_nodes": instead("CREATE TABLE farrier.nodes (\n", f"{_BAYS}CREATE TABLE farrier.nodes (\n    {_BAY}"),
            "09_intents": instead("TABLE farrier.intents (\n", "TABLE farrier.intents (\n    via text,\n"),
            "03_loop": instead("TABLE farrier.shards (\n", "TABLE farrier.shards (\n    note text,\n"),
        },
        steps=[_STEP],
        release="9.9.9",
    )
