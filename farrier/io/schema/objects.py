"""Makes the functions, views, triggers and rights in the database equal to the ones in this program.

The module runs in the caller's transaction, and changes only objects that are missing, were edited by hand, or have a
changed file. If the previous set had an object and this set lacks it, the object is dropped, never with CASCADE. If an
object cannot be replaced in place (other parameters, fewer columns), it is dropped and created again, together with the
objects of the set that depend on it. The rights that roles had on it are granted again. If an object outside the set
depends on such an object, or has the name of an object of the set, the error names the outside object, and nothing
changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
import msgspec
from typing_extensions import override

from farrier import errors
from farrier.io import statements
from farrier.io.schema.files import ObjectKind, Schema, SchemaObject, TableFile, rights_of

if TYPE_CHECKING:
    from farrier.io.connections.pool import Connection

Key = tuple[str, str]
Part = TableFile | SchemaObject
Grants = Sequence[asyncpg.Record]

_DEFINITIONS = statements.load("schema/definitions")
_OBJECTS = statements.load("schema/objects")
_FUNCTIONS = statements.load("schema/functions")
_APPLIED_SET = statements.load("schema/applied_set")
_RECORD_SET = statements.load("schema/record_set")
_FORGET_OBJECTS = statements.load("schema/forget_objects")
_RECORD_OBJECTS = statements.load("schema/record_objects")
_HOLD_STILL = statements.load("schema/hold_still")
_POSTPONE_BODIES = statements.load("schema/postpone_bodies")
_COMMENT = statements.load("schema/comment")
_DROP = statements.load("schema/drop")
_DEPENDENTS = statements.load("schema/dependents")
_GRANTS = statements.load("schema/grants")
_REVOKE = statements.load("schema/revoke")
_KINDS_MADE = statements.load("schema/kinds_made")
_MAKE_KIND = statements.load("schema/make_kind")
_RIGHTS = statements.load("schema/rights")
_GRANT_RIGHTS = statements.load("schema/grant_rights")
_TRIGGERS_OF_KINDS = statements.load("schema/triggers_of_kinds")
_IDENTITIES = statements.load("schema/identities")
_NAMESAKES = statements.load("schema/namesakes")

# The errors of creating an object that mentions a missing or outdated object: the creation is retried after that
# object. A missing right is no such error, because a retry would lack it, too.
_TOO_EARLY = asyncpg.SyntaxOrAccessError
_FORBIDDEN = asyncpg.InsufficientPrivilegeError
# The errors for an object that exists and cannot be replaced in place.
_IRREPLACEABLE = (
    asyncpg.InvalidFunctionDefinitionError,
    asyncpg.InvalidTableDefinitionError,
    asyncpg.DuplicateObjectError,
)
# The errors for a right whose object or role no longer exists. The right ended together with the object or role.
_GONE = (
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedObjectError,
)

_RENAME = "Rename or drop the object, then migrate."
FREE_THE_WAY = "Drop the dependent objects, migrate, and create them again."
# The function that creates the triggers of kinds' tables, which have no files.
MAKER_OF_TRIGGERS = (ObjectKind.FUNCTION, "make_kind")


class Obstacle(msgspec.Struct, frozen=True):
    """An object that does not belong to the set and blocks a migration. `conflict` is the reason. `unless` is the
    condition under which the object does not block the migration; if the conflict is certain, `unless` is empty."""

    description: str
    conflict: str
    unless: str = ""

    @override
    def __str__(self) -> str:
        unless = f", unless {self.unless}" if self.unless else ""
        return f"{self.description} {self.conflict}{unless}"


class State(msgspec.Struct, frozen=True):
    """The state of the set: the applied sources, the definitions that resulted from them, and the present
    definitions."""

    sources: Mapping[Key, str]
    applied: Mapping[Key, str | None]
    found: Mapping[Key, str]
    hash: str | None  # of the applied set; None before the first set
    release: str | None  # of the program that applied the set
    unaltered: frozenset[str]  # functions with the recorded parameters and result
    by_hand: Mapping[str, str]  # other functions of the same names: descriptions, and identities in statements
    comparable: bool  # false on another major version of PostgreSQL, which may word definitions differently

    def edited(self) -> list[str]:
        """Return the objects that were changed or dropped, by hand or by another program, since they were applied. If
        definitions are not comparable, only the dropped objects are included."""
        return sorted(
            f"{kind} {name}"
            for (kind, name), definition in self.applied.items()
            if kind != ObjectKind.RIGHTS
            and ((kind, name) not in self.found or (self.comparable and self.found[kind, name] != definition))
        )

    def is_as(self, wanted: SchemaObject) -> bool:
        """Return whether the database has exactly this object, so that the migration need not apply it."""
        return (
            self.comparable
            and self.sources.get(wanted.key) == wanted.source
            and (wanted.kind is ObjectKind.RIGHTS or self.found.get(wanted.key) == self.applied.get(wanted.key))
        )

    def lacks(self, wanted: SchemaObject) -> bool:
        """Return whether no object has this name."""
        return wanted.key not in (self.sources if wanted.kind is ObjectKind.RIGHTS else self.found)

    def gone(self, schema: Schema) -> list[Key]:
        """Return the objects of the previous set that this set lacks."""
        return sorted(self.sources.keys() - {each.key for each in schema.objects})

    def dropped(self, schema: Schema) -> tuple[str, ...]:
        """Return the objects that this set drops: objects of the previous set that this set lacks, and functions that
        an operator made by hand and that have the name of a function of the set."""
        return (*(f"{kind} {name}" for kind, name in self.gone(schema)), *self.by_hand)


async def state(conn: Connection) -> State:
    """Return the present state. Writes nothing."""
    recorded = await conn.fetch(_OBJECTS)
    applied_set = await conn.fetchrow(_APPLIED_SET)
    functions = await conn.fetch(_FUNCTIONS)
    return State(
        sources={(row["kind"], row["name"]): row["source"] for row in recorded},
        applied={(row["kind"], row["name"]): row["definition"] for row in recorded},
        found=await _found(conn),
        hash=None if applied_set is None else applied_set["hash"],
        release=None if applied_set is None else applied_set["release"],
        unaltered=frozenset(row["name"] for row in functions if row["as_recorded"]),
        by_hand={row["description"]: row["identity"] for row in functions if row["by_hand"]},
        comparable=applied_set is not None and applied_set["comparable"],
    )


async def _found(conn: Connection) -> dict[Key, str]:
    """Return the present definitions. If functions share a name, they have one entry with all their definitions; at
    most one of them belongs to farrier."""
    found: dict[Key, str] = {}
    for row in await conn.fetch(_DEFINITIONS):
        key = (row["kind"], row["name"])
        found[key] = found.get(key, "") + row["definition"]
    return found


async def namesakes(
    conn: Connection, wanted: Sequence[SchemaObject], recorded: Collection[tuple[str, str]], *, unless: str = ""
) -> list[Obstacle]:
    """Return the objects that have the name of an object that a migration would create, but do not belong to farrier
    or have another type. Writes nothing."""
    rows = await conn.fetch(
        _NAMESAKES,
        [each.kind for each in wanted],
        [each.name for each in wanted],
        [each.key in recorded for each in wanted],
    )
    return [Obstacle(row["description"], f"has the same name as {row['object']} of farrier", unless) for row in rows]


def refuse(found: Iterable[Obstacle], *, hint: str = _RENAME) -> None:
    """Raise RefusedByModel if the conflict with one of these objects is certain."""
    if certain := [str(each) for each in found if not each.unless]:
        raise errors.RefusedByModel("; ".join(certain), hint=hint)


async def hold_still(conn: Connection) -> None:
    """Lock tables and views against other sessions until the transaction ends. Call this function before the first of
    them is changed. May be repeated."""
    await conn.execute(_HOLD_STILL)


async def grants(conn: Connection) -> Grants:
    """Return the rights that roles have on functions and views, for `apply`. Call this function before anything is
    dropped."""
    return await conn.fetch(_GRANTS)


async def apply(
    conn: Connection, schema: Schema, granted: Grants, *, new: bool, stepped: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make the set in the database equal to the set of `schema`; in a `new` database, also create the tables. Returns
    the objects that were created or replaced, and the objects that were dropped. May be repeated. Raises RefusedByModel
    if an object that does not belong to farrier has the name of an object of the set, or depends on an object that must
    be dropped."""
    before = await state(conn)
    changed = [each for each in schema.objects if not before.is_as(each)]
    gone = before.gone(schema)
    if not (changed or gone or stepped) and before.hash == schema.set_hash:
        await grant(conn, schema)
        return (), ()
    await conn.execute(_POSTPONE_BODIES)
    work = _Work(conn, schema, before.sources, still=new)
    if remakes_kinds := not new and any(each.key == MAKER_OF_TRIGGERS for each in changed):
        await hold_still(conn)
        await _detach_kinds(conn)
    refuse(await namesakes(conn, changed, before.sources.keys()))
    await work.make(
        [*(schema.tables if new else ()), *(each for each in changed if each.kind is not ObjectKind.RIGHTS)]
    )
    for kind, name in gone:
        await work.drop(ObjectKind(kind), name)
    await work.make(work.dropped_with_another())
    if remakes_kinds:
        await _attach_kinds(conn)
    if stepped or before.hash != schema.set_hash:
        await _comment_tables(conn, schema)
    await _grant_again(conn, [row for row in granted if (row["kind"], row["name"]) in work.made_anew])
    await _revoke(conn, before, schema)
    await grant(conn, schema)
    await record(conn, schema)
    return tuple(map(str, changed)), before.dropped(schema)


async def _grant_again(conn: Connection, granted: Grants) -> None:
    """Grant again the rights that roles had on re-created objects. Call this before the set revokes any right."""
    for row in granted:
        with suppress(*_GONE):
            async with conn.transaction():
                await conn.execute(row["statement"])


async def _revoke(conn: Connection, before: State, schema: Schema) -> None:
    """Revoke the rights that the previous set granted and this set does not grant."""
    granted = {
        right for (kind, _), text in before.sources.items() if kind == ObjectKind.RIGHTS for right in rights_of(text)
    }
    wanted = {right for each in schema.objects if each.kind is ObjectKind.RIGHTS for right in rights_of(each.source)}
    for right, role in sorted(granted - wanted):
        revoke = await conn.fetchval(_REVOKE, right, role)
        with suppress(*_GONE):
            async with conn.transaction():
                await conn.execute(revoke)


async def grant(conn: Connection, schema: Schema) -> None:
    """Give every role its rights, in the caller's transaction. May be called again. In a file, ALL TABLES and ALL
    FUNCTIONS stand for the names of farrier's tables and functions, because an operator may have other tables and
    functions in the same schema."""
    relations = [*(name for each in schema.tables for name in each.tables), *schema.names(ObjectKind.VIEW)]
    sources = [each.source for each in schema.objects if each.kind is ObjectKind.RIGHTS]
    for row in await conn.fetch(_RIGHTS, sources, schema.names(ObjectKind.FUNCTION), relations):
        await conn.execute(row["statements"])
    await conn.execute(_GRANT_RIGHTS)


async def record(conn: Connection, schema: Schema) -> None:
    """Record the present set in the database."""
    found = await _found(conn)
    await conn.execute(_FORGET_OBJECTS)
    await conn.execute(
        _RECORD_OBJECTS,
        [each.kind for each in schema.objects],
        [each.name for each in schema.objects],
        [each.source for each in schema.objects],
        [found[each.key] if each.kind is not ObjectKind.RIGHTS else None for each in schema.objects],
    )
    await conn.execute(_RECORD_SET, schema.set_hash, schema.tables_hash, schema.release)


class _Work:
    """Applies the set once, object by object."""

    def __init__(self, conn: Connection, schema: Schema, sources: Mapping[Key, str], *, still: bool) -> None:
        self._conn = conn
        self._still = still
        self._carried: dict[Key, SchemaObject] = {each.key: each for each in schema.objects}
        self._ours = {*self._carried, *sources}
        self._dropped: dict[Key, None] = {}
        self.made_anew: set[Key] = set()

    async def make(self, wanted: Sequence[Part]) -> None:
        """Create these objects, each after the objects that it mentions, and re-create the objects that are dropped
        meanwhile. If an object mentions a missing object, retry it in rounds, until no object of a round succeeds."""
        waiting = list(wanted)
        while waiting:
            early: dict[Part, Exception] = {}
            for each in waiting:
                try:
                    await self._make_one(each)
                except _FORBIDDEN:
                    raise
                except _TOO_EARLY as error:
                    early[each] = error
            dropped = [each for each in self.dropped_with_another() if each not in early]
            if len(early) == len(waiting) and not dropped:
                part, reason = next(iter(early.items()))
                raise errors.InternalError(
                    f"the schema of this program cannot be created: {part}: {reason}"
                ) from reason
            waiting = [*early, *dropped]

    async def _make_one(self, each: Part) -> None:
        if isinstance(each, TableFile):
            return await self._execute(each.source)
        await self._hold_still_for(each.kind)
        before = await self._there(each.kind, each.name)
        try:
            await self._execute(each.source)
        except _IRREPLACEABLE:
            await self.drop(each.kind, each.name)
            before = {}
            await self._execute(each.source)
        after = await self._there(each.kind, each.name)
        if len(after) > 1:  # a function with other parameters was added: the function that was not written is outdated
            for outdated, _ in after.items() & before.items():
                await self._drop_one(each.kind, each.name, outdated)
            after = dict(after.items() - before.items())
        (made,) = after
        if made not in before:
            self.made_anew.add(each.key)
        self._dropped.pop(each.key, None)
        comment = await self._conn.fetchval(_COMMENT, [each.kind.upper()], [made], [each.comment])
        await self._conn.execute(comment)
        return None

    async def _hold_still_for(self, kind: ObjectKind) -> None:
        """Lock the tables before a view or a trigger changes. A function is replaced without a lock on any table."""
        if kind is not ObjectKind.FUNCTION and not self._still:
            await hold_still(self._conn)
            self._still = True

    async def _execute(self, source: str) -> None:
        async with self._conn.transaction():
            await self._conn.execute(source)

    async def drop(self, kind: ObjectKind, name: str) -> None:
        """Drop all objects with this name; before that, drop the objects of the set that depend on them."""
        for identity in await self._there(kind, name):
            await self._drop_one(kind, name, identity)

    async def _drop_one(self, kind: ObjectKind, name: str, identity: str) -> None:
        for dependent in await self._dependents(kind, name, identity):
            await self.drop(ObjectKind(dependent[0]), dependent[1])
        await self._hold_still_for(kind)
        drop = await self._conn.fetchval(_DROP, kind.upper(), identity)
        await self._conn.execute(drop)
        self._dropped[kind, name] = None

    def dropped_with_another(self) -> list[SchemaObject]:
        """Return the objects of the set that were dropped together with another object."""
        return [self._carried[key] for key in self._dropped if key in self._carried]

    async def _dependents(self, kind: ObjectKind, name: str, identity: str) -> list[Key]:
        rows = await self._conn.fetch(_DEPENDENTS, kind, identity)
        if foreign := [row["description"] for row in rows if (row["kind"], row["name"]) not in self._ours]:
            raise errors.RefusedByModel(
                f"{kind} {name} must be dropped and created again, but {', '.join(foreign)} depends on it",
                hint=FREE_THE_WAY,
            )
        return [(row["kind"], row["name"]) for row in rows]

    async def _there(self, kind: ObjectKind, name: str) -> dict[str, str]:
        """Return the objects with this name, each with the ctid of its row, which changes when the row is written."""
        return {row["identity"]: row["place"] for row in await self._conn.fetch(_IDENTITIES, kind, name)}


async def _detach_kinds(conn: Connection) -> None:
    """Drop the triggers that make_kind created for kinds, because a changed make_kind may create others."""
    for row in await conn.fetch(_TRIGGERS_OF_KINDS):
        await conn.execute(row["drop"])


async def _comment_tables(conn: Connection, schema: Schema) -> None:
    comments = schema.comments
    kinds = ["COLUMN" if name.count(".") == 2 else "TABLE" for name in comments]
    await conn.execute(await conn.fetchval(_COMMENT, kinds, list(comments), list(comments.values())) or "")


async def _attach_kinds(conn: Connection) -> None:
    for row in await conn.fetch(_KINDS_MADE):
        await conn.execute(_MAKE_KIND, row["kind"], row["relation"])
