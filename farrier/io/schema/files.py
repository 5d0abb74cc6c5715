"""The schema that this program carries, read from `farrier/io/schema`.

Folder `tables` has the baseline: the tables of a new database. The folders `functions`, `views`, `triggers` and
`rights` contain the set, which every migration applies again. Each file of the set defines one object, and has the name
of this object. Folder `migrations` has the steps between releases.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from typing_extensions import override

from farrier import errors

DIRECTORY = Path(__file__).parent
# Executed before all other files, by a separate statement.
RECORDS = DIRECTORY / "tables" / "00_schema.sql"
BASELINE = 1

_COMMENT = re.compile(r"--[^\n]*")
_HEADER = re.compile(r"\A(?:--[^\n]*\n)*")
_GRANT = re.compile(r"GRANT (.+?) ON ((?:FUNCTION|SCHEMA|SEQUENCE) )?(.+) TO (.+)")
_TABLE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(farrier\.\w+)", re.MULTILINE)
_LIKE = re.compile(r" {4}LIKE (farrier\.\w+) INCLUDING ALL")
_ALTERED = re.compile(r"ALTER TABLE (farrier\.\w+) ALTER (\w+) .*;\s+-- (.*)")
_COLUMN = re.compile(r" {4}([a-z]\w*) ")
_ELSE = re.compile(r"(?: {4})?\S")
_BEHIND = re.compile(r"\s-- (.*)")
_LISTED = re.compile(r", *(?![^()]*\))")
_REPLICAS = re.compile(r"^-- replicas: (go on|stop)$", re.MULTILINE)


class ObjectKind(StrEnum):
    FUNCTION = "function"
    VIEW = "view"
    TRIGGER = "trigger"
    RIGHTS = "rights"


class TableFile(msgspec.Struct, frozen=True):
    """One file of the baseline, which contains the tables of one topic."""

    name: str
    source: str

    @property
    def tables(self) -> list[str]:
        return [name.removeprefix("farrier.") for name in _TABLE.findall(self.source)]

    @override
    def __str__(self) -> str:
        return f"tables {self.name}"


class SchemaObject(msgspec.Struct, frozen=True):
    """One file of the set."""

    kind: ObjectKind
    name: str
    topic: str
    source: str

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> tuple[str, str]:
        """The key under which the database records this object."""
        return self.kind, self.name

    @property
    def comment(self) -> str:
        """The comment above the statement, as one line."""
        header = _HEADER.match(self.source)
        return " ".join(line.removeprefix("--").strip() for line in header.group().splitlines()) if header else ""


class MigrationStep(msgspec.Struct, frozen=True):
    """One migration between two releases. The step states whether replicas of the earlier release can run while it is
    applied."""

    version: int
    name: str
    sql: str
    replicas_go_on: bool

    @property
    def checksum(self) -> str:
        return _hash([self.sql])


class Schema(msgspec.Struct, frozen=True):
    """All files of the schema. `release` is the release of the program; farrier refuses a database that a later release
    migrated."""

    tables: tuple[TableFile, ...]  # in the order of their names
    objects: tuple[SchemaObject, ...]
    steps: tuple[MigrationStep, ...]
    release: str

    @property
    def version(self) -> int:
        return BASELINE + len(self.steps)

    @property
    def tables_hash(self) -> str:
        """A hash of the baseline without its comments, so that the correction of a comment does not change the hash."""
        return _hash(" ".join(_COMMENT.sub("", table.source).split()) for table in self.tables)

    @property
    def set_hash(self) -> str:
        """A hash of everything that each migration applies: the set and the comments of tables. The hash does not
        depend on the folders of the files."""
        texts = [part for each in sorted(self.objects, key=str) for part in (each.kind, each.name, each.source)]
        return _hash([*texts, *(comment for table in self.tables for comment in _COMMENT.findall(table.source))])

    @property
    def comments(self) -> Mapping[str, str]:
        """The comment of each table (`farrier.nodes`) and column (`farrier.nodes.id`)."""
        return _comments("\n".join(table.source for table in self.tables))

    def names(self, kind: ObjectKind) -> list[str]:
        return [each.name for each in self.objects if each.kind is kind]


def read(*, release: str) -> Schema:
    """Read all files. Raises InternalError for a file with an unexpected name or content."""
    return Schema(
        tables=tuple(TableFile(path.stem, _text(path)) for path in sorted((DIRECTORY / "tables").glob("*.sql"))),
        objects=tuple(each for kind in ObjectKind for each in _objects(kind)),
        steps=tuple(_steps(DIRECTORY / "migrations")),
        release=release,
    )


def _comments(source: str) -> Mapping[str, str]:
    """Read comments line by line. The lines directly above CREATE TABLE belong to the table. The comment behind a
    column belongs to the column, and so do comments of further lines that are indented more than a column. A comment
    that is indented like a column describes the lines below it, and is not copied to the database. A comment behind
    ALTER TABLE … ALTER replaces the comment that LIKE copied to the column."""
    texts: dict[str, list[str]] = {}
    above: list[str] = []
    table = column = ""
    for line in source.splitlines():
        if begun := _TABLE.match(line):
            table, column = begun[1], ""
            texts[table] = above
        elif altered := _ALTERED.match(line):
            texts[f"{altered[1]}.{altered[2]}"] = [altered[3]]
        elif line.startswith(")"):
            table = column = ""
        elif like := _LIKE.match(line):
            inherited = {name: text for name, text in texts.items() if name.startswith(f"{like[1]}.")}
            texts |= {name.replace(like[1], table, 1): text for name, text in inherited.items()}
        elif table and (named := _COLUMN.match(line)):
            column = f"{table}.{named[1]}"
            texts[column] = []
        elif _ELSE.match(line):
            column = ""
        if column and (behind := _BEHIND.search(line)):
            texts[column].append(behind[1])
        above = [*above, line[2:].strip()] if line.startswith("--") else []
    return {name: " ".join(text) for name, text in texts.items()}


def rights_of(text: str) -> set[tuple[str, str]]:
    """Return the rights that a file grants: each right in the form of REVOKE, and its role."""
    statements = (" ".join(part.split()) for part in _COMMENT.sub("", text).split(";"))
    return {
        (f"{privilege} ON {kind or ''}{thing}", role)
        for privileges, kind, things, role_names in (
            found.groups() for found in map(_GRANT.fullmatch, statements) if found
        )
        for privilege in _privileges(privileges)
        for thing in _LISTED.split(things)
        for role in _LISTED.split(role_names)
    }


def _privileges(text: str) -> Iterator[str]:
    """Yield each privilege. If columns are named, there is one privilege for each column."""
    for each in _LISTED.split(text):
        privilege, _, columns = each.rstrip(")").partition("(")
        yield from (f"{privilege.strip()} ({column.strip()})" for column in columns.split(",")) if columns else [each]


def _objects(kind: ObjectKind) -> list[SchemaObject]:
    folder = DIRECTORY / (kind if kind is ObjectKind.RIGHTS else f"{kind}s")
    found = [
        SchemaObject(kind, path.stem, "/".join(path.relative_to(folder).parent.parts), _text(path))
        for path in sorted(folder.rglob("*.sql"))
    ]
    names = [each.name for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise errors.InternalError(f"expected one file for each {kind}, found several for {', '.join(twice)}")
    for each in found:
        _require_name(each)
    return found


def _require_name(each: SchemaObject) -> None:
    table, _, trigger = each.name.rpartition(".")
    expected = {
        ObjectKind.FUNCTION: rf"CREATE OR REPLACE FUNCTION farrier\.{each.name}\(",
        ObjectKind.VIEW: rf"CREATE OR REPLACE VIEW farrier\.{each.name}\s",
        ObjectKind.TRIGGER: rf"CREATE (OR REPLACE|CONSTRAINT) TRIGGER {trigger}\s[^;]* ON farrier\.{table}\s",
        ObjectKind.RIGHTS: r"GRANT ",
    }[each.kind]
    if not re.search(expected, each.source):
        raise errors.InternalError(f"expected {expected} in the file of {each}, found {each.source[:200]!r}")


def _steps(directory: Path) -> list[MigrationStep]:
    found = []
    for expected, path in enumerate(sorted(directory.glob("*.sql")), start=BASELINE + 1):
        number, _, name = path.stem.partition("_")
        if number != f"{expected:04d}" or not name:
            raise errors.InternalError(f"expected migration {expected:04d}_<name>.sql, found {path.name}")
        text = _text(path)
        replicas = _REPLICAS.search(text)
        if replicas is None:
            raise errors.InternalError(f"expected a line '-- replicas: go on' or '-- replicas: stop' in {path.name}")
        found.append(MigrationStep(expected, name, text, replicas.group(1) == "go on"))
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
