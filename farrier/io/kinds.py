"""Kinds in the database that do not come with farrier: installed once, brought up to date, and checked before they run.

Called by `farrier kind install`, by the daemon, and by the tests. Guarantees: an installation is whole or not at all,
any number may be tried at once, and a second one runs no SQL of the kind again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from farrier.errors import ConfigError, RefusedByModel
from farrier.io import catalog, session, statements
from farrier.io.pool import Connection
from farrier.model.kinds import KindSpec

_LOCK = statements.load("schema/lock_kinds")
_KIND = statements.load("schema/kind")
_MAKE = statements.load("schema/make_kind")
_MISSING_COLUMNS = statements.load("schema/missing_columns")
_INHABITED = statements.load("schema/inhabited_states")
_FINGERPRINT = statements.load("schema/kind_fingerprint")
_GRANT_RIGHTS = statements.load("schema/grant_rights")


class Installable(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, the SQL that makes its table, and the columns that this must have."""

    spec: KindSpec
    sql: str
    columns: frozenset[str]


async def install(conn: Connection, kind: Installable) -> bool:
    """Make the database know this kind, by this spec; answers whether it was new. May be called again: what there is of
    it stays. Raises RefusedByModel, and then nothing has changed."""
    spec = kind.spec
    async with conn.transaction():
        await conn.execute(_LOCK)
        known = await conn.fetchval(_KIND, spec.name)
        if known is None:
            await _run(conn, kind)
        elif known != spec.relation:
            raise RefusedByModel(
                f"kind {spec.name} is installed with table {known}, and not {spec.relation}",
                hint="Two packages bring a kind of this name; one must take another.",
            )
        await conn.execute(_MAKE, spec.name, spec.relation)
        await _require_columns(conn, kind)
        await _require_states(conn, spec)
        await catalog.sync_kinds(conn, [spec])
        await conn.execute(_GRANT_RIGHTS)
    return known is None


async def require(conn: Connection, specs: Iterable[tuple[str, KindSpec]]) -> None:
    """Raises ConfigError unless the database knows these kinds (each with what installs it) as this program does."""
    for name, spec in specs:
        known = await conn.fetchval(_FINGERPRINT, spec.name)
        if known is None:
            raise ConfigError(f"kind {spec.name} is not in this database; run: farrier kind install {name}")
        if known != catalog.fingerprint(spec):
            raise ConfigError(
                f"kind {spec.name} is in this database with other states, edges, limits or actions; "
                f"run: farrier kind install {name}"
            )


async def _run(conn: Connection, kind: Installable) -> None:
    try:
        if kind.sql:
            await conn.execute(kind.sql)
    except session.Refusal as refusal:
        raise RefusedByModel(f"the SQL of kind {kind.spec.name} fails: {session.reason_of(refusal)}") from refusal


async def _require_columns(conn: Connection, kind: Installable) -> None:
    missing = [row["name"] for row in await conn.fetch(_MISSING_COLUMNS, kind.spec.relation, sorted(kind.columns))]
    if missing:
        raise RefusedByModel(
            f"{kind.spec.relation} lacks columns: {', '.join(missing)}",
            hint="What create takes, what runs write and what a snapshot has must be columns of the kind's table.",
        )


async def _require_states(conn: Connection, spec: KindSpec) -> None:
    """Whoever is in a state that is no more could never leave it."""
    inhabited = {row["state"] for row in await conn.fetch(_INHABITED, spec.name)}
    if lost := sorted(inhabited - set(spec.states)):
        raise RefusedByModel(
            f"there are resources of kind {spec.name} in states that it no longer has: {', '.join(lost)}",
            hint="Keep the state, with an edge out of it, until nothing is in it.",
        )
