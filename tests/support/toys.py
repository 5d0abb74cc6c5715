"""Small schemas, as a program would carry them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farrier.io.schema_files import BASELINE, ObjectKind, Schema, SchemaObject, Step, Table


def schema(
    *,
    tables: str = "",
    functions: Mapping[str, str] | None = None,
    views: Mapping[str, str] | None = None,
    rights: str = "",
    steps: Sequence[str] = (),
    release: str = "1.0.0",
) -> Schema:
    """`functions` are whole statements, or bodies of functions without parameters that return an integer."""
    objects = [
        *(
            SchemaObject(ObjectKind.FUNCTION, name, "", function(name, text))
            for name, text in (functions or {}).items()
        ),
        *(SchemaObject(ObjectKind.VIEW, name, "", f"{text};\n") for name, text in (views or {}).items()),
        SchemaObject(ObjectKind.RIGHTS, "toys", "", grant_rights(rights)),
    ]
    # What every set has, because a migration calls it.
    objects.append(SchemaObject(ObjectKind.FUNCTION, "grant_rights", "", function("grant_rights", "SELECT 1")))
    return Schema(
        tables=(Table("toys", tables),),
        objects=tuple(objects),
        steps=tuple(
            Step(number, f"toy_{number}", sql, "-- replicas: go on" in sql)
            for number, sql in enumerate(steps, BASELINE + 1)
        ),
        release=release,
    )


def function(name: str, text: str) -> str:
    if text.startswith(("CREATE", "--")):
        return f"{text};\n"
    return f"CREATE OR REPLACE FUNCTION farrier.{name}() RETURNS integer LANGUAGE sql AS $$ {text} $$;\n"


def grant_rights(text: str) -> str:
    return text or "GRANT USAGE ON SCHEMA farrier TO farrier_reader;\n"
