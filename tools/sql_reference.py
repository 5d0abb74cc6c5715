"""The documentation of the database, from the comments and rights of the schema: tables, functions and views."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from farrier.io.schema import files
from farrier.io.schema.files import ObjectKind, SchemaObject
from tools.markdown import table

# The functions that no role may call: the schema's owner has them.
_OF_THE_OWNER = ("grant_worker", "revoke_worker", "grant_monitor", "revoke_monitor", "set_pool")
# In a file of rights, the comment above a grant that another program does not need.
_OWN = "-- For farrier's own programs."
_CONTROLLER = "farrier_controller"
# The number of the other roles.
_ROLES = 5

_COLUMNS = ("table", "read by", "meaning")

_TITLE = re.compile(r"\A-- (.+?)\n\n", re.DOTALL)
_HEAD = re.compile(r"CREATE OR REPLACE FUNCTION farrier\.\w+\(")
_RETURNS = re.compile(r"\s*RETURNS\s+(TABLE\s*\(|SETOF\s+\w+|\w+)")


def blocks() -> Mapping[str, str]:
    """Return the text of each marker, by name."""
    schema = files.read(release="")
    return {"tables": _tables(schema), "sql-functions": _functions(schema), "sql-views": _views(schema)}


def _tables(schema: files.Schema) -> str:
    meaning = schema.comments
    readers = _roles(schema, "SELECT")
    sections = []
    for file in (each for each in schema.tables if each.tables):
        rows = [(f"`{name}`", _named(readers.get(name, ())), meaning[f"farrier.{name}"]) for name in file.tables]
        sections.append(f"## {_title(file.name)}\n\n{_purpose(file.source)}\n\n{table(_COLUMNS, rows)}")
    return "\n".join(sections)


def _title(name: str) -> str:
    """Return the title of a file of tables: `Nodes` for `05_nodes`."""
    topic = name.partition("_")[2]
    return topic.upper() if topic == "maas" else topic.capitalize()


def _purpose(source: str) -> str:
    """Return the comment with which a file of tables begins, as one line."""
    begins = _TITLE.match(source)
    return " ".join(line.removeprefix("--").strip() for line in begins[0].splitlines()).strip() if begins else ""


def _functions(schema: files.Schema) -> str:
    callers = _roles(schema, "EXECUTE") | dict.fromkeys(_OF_THE_OWNER, ("the owner of the schema",))
    functions = [each for each in schema.objects if each.kind is ObjectKind.FUNCTION and each.name in callers]
    functions.sort(key=lambda each: (_named(callers[each.name]), each.topic))
    rows = [(f"`{_call(each)}`", _named(callers[each.name]), each.comment) for each in functions]
    return table(("call", "role", "what it does"), rows)


def _views(schema: files.Schema) -> str:
    readers = _roles(schema, "SELECT")
    rows = [
        (f"`{each.name}`", _named(readers[each.name]), each.comment)
        for each in schema.objects
        if each.kind is ObjectKind.VIEW and each.name in readers
    ]
    return table(("view", "role", "its rows"), rows)


def _named(roles: tuple[str, ...]) -> str:
    if len(roles) == _ROLES:
        return "every role"
    return ", ".join(role if " " in role else f"`{role}`" for role in roles)


def _roles(schema: files.Schema, privilege: str) -> dict[str, tuple[str, ...]]:
    """Return the roles that have a privilege, by the name of the object, without the controller's role."""
    granted = {
        (right.removeprefix("FUNCTION ").removeprefix("farrier."), role)
        for each in schema.objects
        if each.kind is ObjectKind.RIGHTS
        for text in _for_others(each.source)
        for what, role in files.rights_of(text)
        for right in [what.partition(" ON ")[2]]
        if what.split(" ")[0] == privilege and role != _CONTROLLER
    }
    names = {name for name, _ in granted}
    return {name: tuple(sorted(role for each, role in granted if each == name)) for name in names}


def _for_others(source: str) -> Iterator[str]:
    """Yield the statements of a file of rights, without those for farrier's own programs."""
    for statement in source.split(";"):
        if _OWN not in statement:
            yield f"{statement};"


def _call(each: SchemaObject) -> str:
    """Return how a function is called and what it returns. A question mark follows a parameter that has a default."""
    begins = _HEAD.search(each.source)
    assert begins is not None, f"expected a function in the file of {each}"
    arguments, rest = _enclosed(each.source[begins.end() :])
    taken = [_parameter(text) for text in _split(arguments) if not text.startswith("OUT ")]
    given = [text.split()[1] for text in _split(arguments) if text.startswith("OUT ")]
    result = ", ".join(given) or _result(rest)
    return f"{each.name}({', '.join(taken)})" + (f" → {result}" if result else "")


def _parameter(text: str) -> str:
    return text.split(maxsplit=1)[0] + ("?" if " DEFAULT " in text else "")


def _result(rest: str) -> str:
    returns = _RETURNS.match(rest)
    if returns is None or returns[1] == "void":
        return ""
    if returns[1].startswith("TABLE"):
        columns, _ = _enclosed(rest[returns.end() :])
        return ", ".join(text.split()[0] for text in _split(columns))
    return returns[1]


def _enclosed(text: str) -> tuple[str, str]:
    """Return the text up to the parenthesis that ends it, and the text behind."""
    depth = 1
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return text[:at], text[at + 1 :]
    raise ValueError(f"expected a closing parenthesis in {text[:200]!r}")


def _split(text: str) -> list[str]:
    """Return the parts between the commas that no parenthesis encloses."""
    parts = [""]
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [" ".join(part.split()) for part in parts if part.strip()]
