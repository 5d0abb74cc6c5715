"""Returns the schema of this program as one text. Its order suits people, who read tables first, and psql can execute
it.

The command `farrier db schema` and the documentation use this module. The names of the files and the names that a text
mentions determine the order; SQL is not parsed. PostgreSQL parses a function body in a string only when the function is
called, so the order of such functions is free. Objects that the server parses at creation (tables, views, functions
with `RETURN`) come after the objects that they mention.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from farrier.io.schema.files import ObjectKind, Schema, SchemaObject, TableFile

# The topic of the functions that grant rights, and also of the files of roles, which name no topic.
RIGHTS = "rights"

_WIDTH = 120
_RULE = f"-- {'=' * (_WIDTH - 3)}\n"
_COMMENT = re.compile(r"--[^\n]*")
_MENTIONED = re.compile(r"\bfarrier\.(\w+)")
_STRING_BODY = " AS $"
_BY_TOPIC = (ObjectKind.FUNCTION, ObjectKind.VIEW, ObjectKind.TRIGGER)

_ABOUT = """\
-- The schema of a new database of farrier {release} (version {version} of the tables). Printed by `farrier db schema`
-- from the files in farrier/io/schema; edit those files to change it.
--
-- Tables come first, by topic; then functions, views and triggers, each by topic; then the rights of each role.
-- Topics without tables come first; the other topics are in the order of their tables. If the server needs an
-- object to create another object, the needed object comes first. Needed objects are the functions that a default or a
-- check of a table calls, and the objects that a view or a function with RETURN mentions. All other functions have
-- their bodies in strings, which the server reads when the functions are called.
--
-- psql loads this text into an empty database of a server that has the roles (`farrier db roles`). Such a database
-- serves reviews and experiments. It lacks the record of its version and the rows that mirror the model, so farrier
-- refuses to work with it. Use `farrier db migrate` to create a database for farrier.
"""
_ABOUT_TOPIC = "-- Topic {topic} of the schema of farrier {release}, printed by `farrier db schema --topic {topic}`.\n"
_BEGIN = "BEGIN;\nSET LOCAL check_function_bodies = off;\n"
_END = "COMMIT;\n"


class _Section(msgspec.Struct, frozen=True):
    title: str
    topic: str
    parts: Sequence[TableFile | SchemaObject]


def whole(schema: Schema) -> str:
    """Return the whole schema in a form that psql can load."""
    about = f"{_ABOUT.format(release=schema.release, version=schema.version)}--\n{_contents(schema)}"
    return "\n".join((about, _BEGIN, *map(_printed, _Order(schema).sections()), _END))


def of_topic(schema: Schema, topic: str) -> str:
    """Return the objects of one of `topics`, in the same order."""
    part = msgspec.structs.replace(
        schema,
        tables=tuple(table for table in schema.tables if _topic(table) == topic),
        objects=tuple(each for each in schema.objects if _topic(each) == topic),
    )
    about = _ABOUT_TOPIC.format(topic=topic, release=schema.release)
    return "\n".join((about, *map(_printed, _Order(part).sections())))


def topics(schema: Schema) -> list[str]:
    """Return the topics: first the topics without tables, then the others in the order of their tables."""
    of_tables = [_topic(table) for table in schema.tables]
    return [*sorted({_topic(each) for each in schema.objects} - set(of_tables)), *of_tables]


def _topic(each: TableFile | SchemaObject) -> str:
    if isinstance(each, TableFile):
        return each.name.partition("_")[2]
    return RIGHTS if each.kind is ObjectKind.RIGHTS else each.topic


class _Order:
    """Puts each part under its heading, and places no part twice."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._named = {e.name: e for e in schema.objects if e.kind in {ObjectKind.FUNCTION, ObjectKind.VIEW}}
        self._placed: set[TableFile | SchemaObject] = set()

    def sections(self) -> Iterator[_Section]:
        for table in self._schema.tables:
            yield _Section(f"Tables: {_topic(table)}", _topic(table), list(self._placing(table)))
        for kind in _BY_TOPIC:
            for topic in topics(self._schema):
                parts = [part for each in self._of(kind, topic) for part in self._placing(each)]
                if parts:
                    yield _Section(f"{kind.capitalize()}s: {topic}", topic, parts)
        for each in self._schema.objects:
            if each.kind is ObjectKind.RIGHTS:
                yield _Section(f"Rights: {each.name}", RIGHTS, list(self._placing(each)))

    def _of(self, kind: ObjectKind, topic: str) -> list[SchemaObject]:
        return [each for each in self._schema.objects if each.kind is kind and each.topic == topic]

    def _placing(self, each: TableFile | SchemaObject) -> Iterator[TableFile | SchemaObject]:
        """Yield the objects that `each` needs, and then `each`, without those that were already placed."""
        if each in self._placed:
            return
        self._placed.add(each)
        for needed in self._needed(each):
            yield from self._placing(needed)
        yield each

    def _needed(self, each: TableFile | SchemaObject) -> Iterable[SchemaObject]:
        if _STRING_BODY in each.source:
            return []
        mentioned = sorted(set(_MENTIONED.findall(_COMMENT.sub("", each.source))))
        return [self._named[name] for name in mentioned if name in self._named]


def _printed(section: _Section) -> str:
    heading = f"{_RULE}-- {section.title}\n{_RULE}"
    parts = (
        part.source
        if _topic(part) == section.topic
        else f"-- From topic {_topic(part)}; a later object needs it.\n{part.source}"
        for part in section.parts
    )
    return "\n".join((heading, *parts))


def _contents(schema: Schema) -> str:
    names = {_topic(table): ", ".join(table.tables) for table in schema.tables}
    names[RIGHTS] = ", ".join(each.name for each in schema.objects if each.kind is ObjectKind.RIGHTS)
    lines = [_content_line("topic", [f"{kind}s" for kind in _BY_TOPIC], "tables, roles")]
    for topic in topics(schema):
        counts = [sum(e.kind is kind and e.topic == topic for e in schema.objects) for kind in _BY_TOPIC]
        lines.append(_content_line(topic, [str(count or "") for count in counts], names.get(topic, "")))
    return "".join(lines)


def _content_line(topic: str, counts: Sequence[str], names: str) -> str:
    begin = f"-- {topic:12}{''.join(f'{count:>11}' for count in counts)}   "
    indent = f"--{' ' * (len(begin) - 2)}"
    return f"{textwrap.fill(names, _WIDTH, initial_indent=begin, subsequent_indent=indent) or begin.rstrip()}\n"
