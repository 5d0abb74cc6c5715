"""The schema as one text: psql loads it, and it has every file once, in the order of the topics."""

from __future__ import annotations

import asyncpg
import pytest

from farrier.io.schema import migrate
from farrier.io.schema import text as schema_text
from farrier.io.schema.files import ObjectKind, Schema, SchemaObject, TableFile
from tests.support import pg
from tests.support.catalogs import catalogs

CARRIED = migrate.carried()
FILES: list[TableFile | SchemaObject] = [*CARRIED.tables, *CARRIED.objects]


def function(name: str, topic: str, body: str) -> SchemaObject:
    text = f"CREATE OR REPLACE FUNCTION farrier.{name}() RETURNS integer LANGUAGE sql {body};\n"
    return SchemaObject(ObjectKind.FUNCTION, name, topic, text)


def schema(*objects: SchemaObject) -> Schema:
    tables = (TableFile("01_first", "CREATE TABLE farrier.one (a integer DEFAULT farrier.given());\n"),)
    return Schema(tables=(*tables, TableFile("02_second", "-- Nothing.\n")), objects=objects, steps=(), release="1.0.0")


async def test_the_printed_schema_makes_the_same_database_as_a_migration(every_server: pg.Server) -> None:
    async with every_server.copy(pg.EMPTY) as migrated, migrated.connect() as conn:
        await migrate.migrate(conn)
        wanted = {line for line in await catalogs(conn) if not line.startswith("comment on ")}
    async with every_server.copy(pg.EMPTY) as loaded:
        plain = await asyncpg.connect(loaded.dsn)
        await plain.execute(schema_text.whole(CARRIED))
        await plain.close()
        async with loaded.connect() as conn:
            assert await catalogs(conn) == wanted


def test_every_file_is_in_the_printed_schema_once() -> None:
    text = schema_text.whole(CARRIED)
    assert [each.name for each in FILES if text.count(each.source) != 1] == []


def test_every_file_belongs_to_one_of_the_topics() -> None:
    texts = [schema_text.of_topic(CARRIED, topic) for topic in schema_text.topics(CARRIED)]
    for each in FILES:
        assert sum(each.source in text for text in texts) == 1, each.name


def test_tables_come_before_functions_and_topics_in_the_order_of_their_tables() -> None:
    text = schema_text.whole(CARRIED)
    headings = ["Tables: schema", "Tables: nodes", "Functions: core", "Functions: nodes", "Views: nodes"]
    headings += ["Triggers: nodes", "Rights: farrier_reader"]
    places = [text.index(f"\n-- {heading}\n") for heading in headings]
    assert places == sorted(places)
    assert schema_text.topics(CARRIED)[-1] == "statistics"


def test_an_object_comes_after_the_objects_that_the_server_needs_to_create_it() -> None:
    text = schema_text.whole(
        schema(
            function("calls", "first", "RETURN farrier.is_called()"),
            function("given", "second", "RETURN 1"),
            function("is_called", "second", "AS $$ SELECT farrier.calls() $$"),
        )
    )
    made = ["FUNCTION farrier.given", "TABLE farrier.one", "FUNCTION farrier.is_called", "FUNCTION farrier.calls"]
    places = [text.index(each) for each in made]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["function", "view", "trigger", "rights"])
def test_a_topic_has_its_objects_of_every_kind(kind: str) -> None:
    topic = "rights" if kind == "rights" else "nodes"
    text = schema_text.of_topic(CARRIED, topic)
    held = [each for each in CARRIED.objects if each.kind == kind and each.topic == ("" if kind == "rights" else topic)]
    assert held
    assert all(each.source in text for each in held)
