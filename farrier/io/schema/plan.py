"""Reports what a migration would do, which objects block it, and whether replicas can run during the migration.

The command `farrier db migrate --plan` uses this module. The module writes nothing that lasts; it reads the catalogs
and compares texts. If the plan cannot show that replicas can run during the migration, it gives the reason, and
replicas have to stop. The plan reads only the header of a step, not its statements.

Signatures, views and rights show whether a program for the one schema can work with the other. Their files are compared
as texts; SQL is not parsed. A difference that is not understood counts as breaking: a needless stop of replicas costs
less than replicas that fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import asyncpg
import msgspec
from typing_extensions import override

from farrier.io import statements
from farrier.io.schema import migrate, objects
from farrier.io.schema.files import MigrationStep, ObjectKind, Schema, SchemaObject, rights_of
from farrier.io.schema.migrate import Migrated, MissingTables
from farrier.io.schema.objects import FREE_THE_WAY, MAKER_OF_TRIGGERS, Key, Obstacle, State

if TYPE_CHECKING:
    from farrier.io.connections.pool import Connection

# The columns of a view in their order, each with its type. Lengths and collations are not compared.
Columns = Mapping[str, int]

_DEPENDENTS = statements.load("schema/dependents")
_IDENTITIES = statements.load("schema/identities")
_TRIGGERS_OF_KINDS = statements.load("schema/triggers_of_kinds")
_VIEW_COLUMNS = statements.load("schema/view_columns")

# Strings are kept, because they may contain two dashes.
_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*")
_SIGNATURE = re.compile(
    r"FUNCTION farrier\.\w+ ?\((?P<parameters>[^;$]*?)\)(?: RETURNS (?P<result>[^;$]*?))? (?:LANGUAGE|AS|RETURN) "
)
# A comma outside of parentheses. Parentheses are not nested here.
_COMMA = re.compile(r", ?(?![^()]*\))")
_DEFAULT = re.compile(r" DEFAULT .*")
# Parameters that return a value, or that accept any number of arguments.
_OTHER_MODE = re.compile(r"\b(?:OUT|INOUT|VARIADIC)\b")
_VIEW = re.compile(r"CREATE OR REPLACE VIEW farrier\.\w+\s+AS\s(?P<query>.*)", re.DOTALL)
_REVOKE = re.compile(r"REVOKE (.* ON .*) FROM (.*?)(?: CASCADE)?$")


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a migration would make. `release` is the release of the program that migrated last. `stops`
    lists the reasons why replicas of that release cannot run during the migration. A new database has neither a release
    nor reasons."""

    would: Migrated
    steps: tuple[MigrationStep, ...] = ()
    namesakes: tuple[Obstacle, ...] = ()
    in_the_way: tuple[Obstacle, ...] = ()
    stops: tuple[str, ...] = ()
    release: str | None = None

    def require_free_way(self) -> None:
        """Raise RefusedByModel if the migration would raise it."""
        objects.refuse(self.namesakes)
        objects.refuse(self.in_the_way, hint=FREE_THE_WAY)


class _Signature(msgspec.Struct, frozen=True):
    """The parameters and the result of a function."""

    parameters: tuple[str, ...]
    result: str

    @override
    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}){f' RETURNS {self.result}' if self.result else ''}"

    @property
    def is_trigger(self) -> bool:
        """Whether this is a trigger function, which no program calls."""
        return self.result == "trigger"

    def replaces(self, other: _Signature) -> bool:
        """Return whether CREATE OR REPLACE accepts this signature for a function that has the signature `other`. Only
        defaults may differ or be added."""
        pairs = list(zip(self.parameters, other.parameters, strict=False))
        return (
            (self.result, len(self.parameters)) == (other.result, len(other.parameters))
            and all(_DEFAULT.sub("", mine) == _DEFAULT.sub("", before) for mine, before in pairs)
            and all(_DEFAULT.search(mine) for mine, before in pairs if _DEFAULT.search(before))
        )

    def serves(self, other: _Signature) -> bool:
        """Return whether this signature accepts every call that the signature `other` accepts, and returns the same
        type."""
        kept = _Signature(self.parameters[: len(other.parameters)], self.result)
        added = self.parameters[len(other.parameters) :]
        return kept.replaces(other) and all(_DEFAULT.search(each) and not _OTHER_MODE.search(each) for each in added)


class _Effect(msgspec.Struct, frozen=True):
    """The effects of applying a file, besides replacing the object in place."""

    made_anew: bool = False
    unless: str = ""
    stops: tuple[str, ...] = ()


async def plan(conn: Connection, *, schema: Schema | None = None) -> MigrationPlan:
    """Plan the changes that `migrate` would make now. Raises the same errors: SchemaTooNew, SchemaUnrecorded or
    SchemaChanged, or RefusedByModel for missing roles."""
    wanted = migrate.carried() if schema is None else schema
    await _require_roles(conn)
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        lacks = await migrate.pending(conn, wanted)
        if lacks.new:
            everything = tuple(map(str, wanted.objects))
            found = await objects.namesakes(conn, wanted.objects, ())
            return MigrationPlan(
                would=Migrated(lacks.versions, changed=everything, made=everything), namesakes=tuple(found)
            )
        return await _Planning(conn, wanted, lacks, await objects.state(conn)).plan()


async def _require_roles(conn: Connection) -> None:
    """Raise RefusedByModel if the migration could not create the missing roles; rolls their creation back."""
    attempt = conn.transaction()
    await attempt.start()
    try:
        await migrate.create_roles(conn)
    finally:
        await attempt.rollback()


class _Planning:
    """The computation of one plan, for a database that has a schema."""

    def __init__(self, conn: Connection, wanted: Schema, lacks: MissingTables, now: State) -> None:
        self._conn = conn
        self._wanted = wanted
        self._lacks = lacks
        self._now = now
        self._edited = now.edited()
        self._gone = now.gone(wanted)
        self._changed = [each for each in wanted.objects if not now.is_as(each)]

    async def plan(self) -> MigrationPlan:
        effects = [(each, await self._effect(each)) for each in self._changed]
        steps = self._lacks.steps
        stops = [
            *(
                f"the header of migration {step.version} ({step.name}) requires this"
                for step in steps
                if not step.replicas_go_on
            ),
            *self._dropped(),
            *(reason for _, effect in effects for reason in effect.stops),
            *self._lost_rights(),
        ]
        return MigrationPlan(
            would=Migrated(
                self._lacks.versions,
                changed=tuple(map(str, self._changed)),
                dropped=self._now.dropped(self._wanted),
                made=tuple(str(each) for each in self._changed if self._now.lacks(each)),
                edited=tuple(self._edited),
            ),
            steps=steps,
            namesakes=tuple(await self._namesakes()),
            in_the_way=tuple(await self._in_the_way(effects)),
            stops=tuple(stops),
            release=self._now.release,
        )

    async def _effect(self, each: SchemaObject) -> _Effect:
        match each.kind:
            case ObjectKind.FUNCTION:
                return self._effect_of_function(each)
            case ObjectKind.VIEW:
                return await self._effect_of_view(each)
            case ObjectKind.TRIGGER | ObjectKind.RIGHTS:
                return _Effect()
            case _ as never:
                assert_never(never)

    def _effect_of_function(self, each: SchemaObject) -> _Effect:
        source = self._now.sources.get(each.key)
        old, new = _signature(source or ""), _signature(each.source)
        stops: tuple[str, ...] = ()
        if old is None or new is None:
            if source is not None and source != each.source:
                stops = (f"the parameters and the result of {each} cannot be compared",)
        elif not new.serves(old):
            stops = (f"{each}{old} becomes {new}",)
        if self._now.lacks(each):
            return _Effect(stops=stops)
        if each.name in self._now.unaltered and old is not None and new is not None:
            return _Effect(made_anew=not new.replaces(old), stops=stops)
        return _Effect(made_anew=True, unless="its parameters and its result match its file", stops=stops)

    async def _effect_of_view(self, each: SchemaObject) -> _Effect:
        rows = await self._conn.fetch(_VIEW_COLUMNS, each.name)
        old: Columns = {row["name"]: row["type"] for row in rows}
        if not old:
            return _Effect()
        new = await self._columns(each)
        if isinstance(new, str):
            reason = f"the columns of {each} are known only after the migration: {new}"
            return _Effect(made_anew=True, unless="it keeps its columns", stops=(reason,))
        if list(new.items())[: len(old)] == list(old.items()):
            return _Effect()
        stops = [f"{each} loses column {name}" for name in old if name not in new]
        stops += [f"{each} changes the type of column {name}" for name in old if new.get(name, old[name]) != old[name]]
        return _Effect(made_anew=True, stops=tuple(stops or [f"{each} changes the order of its columns"]))

    async def _columns(self, each: SchemaObject) -> Columns | str:
        """Return the columns that a view will have, or why they are not known."""
        query = _query(each.source)
        if query is None:
            return "its file contains more than the query"
        try:
            async with self._conn.transaction():
                prepared = await self._conn.prepare(query)
        except asyncpg.PostgresError as error:
            return str(error)
        return {attribute.name: attribute.type.oid for attribute in prepared.get_attributes()}

    def _dropped(self) -> list[str]:
        """Return the dropped objects that programs may call or read."""
        found = []
        for kind, name in self._gone:
            signature = _signature(self._now.sources[kind, name])
            if kind == ObjectKind.VIEW or (kind == ObjectKind.FUNCTION and not (signature and signature.is_trigger)):
                found.append(f"{kind} {name} is dropped")
        return found

    def _lost_rights(self) -> list[str]:
        """Return a sentence for each role that loses rights. Rights on objects that are dropped or new do not count."""
        carried = {each.key for each in self._wanted.objects}
        others = {
            f"{'FUNCTION ' if kind == ObjectKind.FUNCTION else ''}farrier.{name}"
            for kind, name in carried ^ self._now.sources.keys()
        }
        lost: dict[str, list[str]] = {}
        for role, right in _roles_that_lose(
            (source for (kind, _), source in self._now.sources.items() if kind == ObjectKind.RIGHTS),
            (each.source for each in self._wanted.objects if each.kind is ObjectKind.RIGHTS),
        ):
            if right.partition(" ON ")[2] not in others:
                lost.setdefault(role or "a role", []).append(right)
        return [f"{role} may lose {', '.join(rights)}" for role, rights in lost.items()]

    async def _in_the_way(self, effects: Sequence[tuple[SchemaObject, _Effect]]) -> list[Obstacle]:
        """Return the objects outside the set that depend on an object which the migration drops. If the migration drops
        an object in order to create it again, it also drops the dependents of the object."""
        gone = await self._detached()
        found: dict[Obstacle, None] = {}
        for description, identity in self._now.by_hand.items():
            rows = await self._conn.fetch(_DEPENDENTS, ObjectKind.FUNCTION, identity)
            found |= dict.fromkeys(self._obstacles(rows, description))
        for key in self._gone:
            found |= dict.fromkeys(await self._foreign(key, ""))
        for each, effect in effects:
            for key in await self._with_dependents(each.key) if effect.made_anew else ():
                found |= dict.fromkeys(await self._foreign(key, effect.unless))
        return [each for each in found if each.description not in gone]

    async def _namesakes(self) -> list[Obstacle]:
        gone = await self._detached()
        found = await objects.namesakes(
            self._conn, self._changed, self._now.sources.keys(), unless=self._changed_by_a_step()
        )
        return [each for each in found if each.description not in gone]

    async def _detached(self) -> set[str]:
        """If `make_kind` changed, return the triggers of all kinds; otherwise, return nothing. The migration drops
        these triggers first, and creates them again at its end."""
        if MAKER_OF_TRIGGERS not in {each.key for each in self._changed}:
            return set()
        return {row["description"] for row in await self._conn.fetch(_TRIGGERS_OF_KINDS)}

    def _changed_by_a_step(self) -> str:
        return f"migration {self._lacks.steps[0].version} changes that" if self._lacks.steps else ""

    async def _foreign(self, key: Key, unless: str) -> list[Obstacle]:
        """Return the objects outside the set that depend on an object. A step may remove the dependency."""
        kind, name = key
        return self._obstacles(await self._dependents(key), f"{kind} {name}", unless)

    def _obstacles(self, dependents: Sequence[asyncpg.Record], dropped: str, unless: str = "") -> list[Obstacle]:
        unless = unless or self._changed_by_a_step()
        return [
            Obstacle(row["description"], f"depends on {dropped}, which must be dropped and created again", unless)
            for row in dependents
            if not self._is_ours((row["kind"], row["name"]))
        ]

    async def _with_dependents(self, key: Key) -> list[Key]:
        """Return an object, and the objects of the set that must be dropped before it."""
        found = {key: None}
        waiting = [key]
        while waiting:
            rows = await self._dependents(waiting.pop())
            ours = [(row["kind"], row["name"]) for row in rows if self._is_ours((row["kind"], row["name"]))]
            waiting += [each for each in ours if each not in found]
            found |= dict.fromkeys(ours)
        return list(found)

    async def _dependents(self, key: Key) -> list[asyncpg.Record]:
        kind, name = key
        rows = await self._conn.fetch(_IDENTITIES, kind, name)
        identities = [row["identity"] for row in rows if row["identity"] not in self._now.by_hand.values()]
        return [found for each in identities for found in await self._conn.fetch(_DEPENDENTS, kind, each)]

    def _is_ours(self, key: Key) -> bool:
        return key in self._now.sources or any(each.key == key for each in self._wanted.objects)


def _signature(source: str) -> _Signature | None:
    """Return the signature in a function's file; None if the file does not follow the style of farrier's files."""
    found = _SIGNATURE.search(_line(source))
    if found is None or " LANGUAGE " in found["parameters"]:
        return None
    parameters = found["parameters"]
    return _Signature(tuple(_COMMA.split(parameters)) if parameters else (), found["result"] or "")


def _query(source: str) -> str | None:
    """Return the query in a view's file; None if the file does not follow the style of farrier's files."""
    found = _VIEW.search(source)
    return found["query"].rstrip().removesuffix(";") if found else None


def _roles_that_lose(before: Iterable[str], after: Iterable[str]) -> list[tuple[str, str]]:
    """Return each role that loses a right, with this right. A role loses a right if only the files of `before` grant
    the right, or if only the files of `after` revoke the right. A statement that cannot be parsed is returned with an
    empty role, unless both sets of files have the statement."""
    old, new = ([line for text in texts for line in _statements(text)] for texts in (before, after))
    lost = (_granted(old) - _granted(new)) | (_granted(_revokes(new)) - _granted(_revokes(old)))
    lost |= {(line, "") for line in _unreadable(old) ^ _unreadable(new)}
    return sorted((role, right) for right, role in lost)


def _granted(lines: Iterable[str]) -> set[tuple[str, str]]:
    return {right for line in lines for right in rights_of(line)}


def _revokes(lines: Iterable[str]) -> list[str]:
    """Return the REVOKE statements, each converted to the GRANT of the same right."""
    return [_REVOKE.sub(r"GRANT \1 TO \2", line) for line in lines if _REVOKE.fullmatch(line)]


def _unreadable(lines: Iterable[str]) -> set[str]:
    return {line for line in lines if not rights_of(line) and not _REVOKE.fullmatch(line)}


def _statements(text: str) -> list[str]:
    return [line for part in _line(text).split(";") if (line := part.strip())]


def _line(text: str) -> str:
    """Return a text without comments, on one line."""
    return " ".join(_COMMENT.sub(lambda found: found[1] or "", text).split())
