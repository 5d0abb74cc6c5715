"""Kinds of other packages in the database: installs, updates and removes them, and checks them before they run.

An installation or removal happens completely or not at all; any number of them may run at the same time. A second
installation does not run the kind's SQL again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import asyncpg
import msgspec

from farrier.errors import ConfigError, RefusedByModel
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.lock_timeout import LOCKED, PATIENT, LockPatience, patiently
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog
from farrier.model.intents.params import describe
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindLayer, KindSpec

_LOCK = statements.load("schema/lock_migrator")
_KIND = statements.load("schema/kind")
_MAKE = statements.load("schema/make_kind")
_MISSING_COLUMNS = statements.load("schema/missing_columns")
_HOLD_SQL = statements.load("schema/hold_kind_sql")
_RUN_SQL = statements.load("schema/run_kind_sql")
_TAKEN_LABEL = statements.load("schema/taken_label")
_LOST = statements.load("schema/lost_states")
_TABLE_EXISTS = statements.load("schema/table_exists")
_TRY_PATTERN = statements.load("schema/try_pattern")
_FORGET = statements.load("schema/forget_kind")
_INHABITED = statements.load("schema/inhabited_states")
_GRANT_RIGHTS = statements.load("schema/grant_rights")

# The errors of PL/pgSQL for a command that controls transactions: in the SQL itself, and in a DO block of the SQL.
_CONTROLS_TRANSACTION = (asyncpg.FeatureNotSupportedError, asyncpg.InvalidTransactionTerminationError)


class Installable(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, the SQL that creates its table, and the columns that the table must have."""

    spec: KindSpec
    sql: str
    columns: frozenset[str]


async def install(conn: Connection, kind: Installable, *, patience: LockPatience = PATIENT) -> bool:
    """Install a kind with this spec in the database. Returns whether the kind was new. May be repeated; existing parts
    stay. If the kind does not fit the database, or if a table stays locked for longer than `patience`, raises
    RefusedByModel, and nothing has changed."""

    async def installed() -> bool:
        await conn.execute(_LOCK)
        new = await _make(conn, kind)
        await _require_columns(conn, kind)
        await _require_patterns(conn, kind.spec)
        await _require_labels(conn, kind.spec)
        for layer in kind.spec.every_layer:
            await _require_states(conn, kind.spec, layer)
        await catalog.sync_kinds(conn, [kind.spec])
        await conn.execute(_GRANT_RIGHTS)
        return new

    return await patiently(conn, f"kind {kind.spec.name}", installed, patience)


async def remove(conn: Connection, name: str, *, patience: LockPatience = PATIENT) -> None:
    """Remove a kind; its table, history and intents stay. If a resource of the kind has not ended, or the kind is built
    in, raises RefusedByModel, and nothing has changed."""
    if any(spec.name == name for spec in BUILT_IN):
        raise RefusedByModel(f"kind {name} is built in and cannot be removed")

    async def removed() -> None:
        await conn.execute(_LOCK)
        with _refusals():
            await conn.execute(_FORGET, name)

    await patiently(conn, f"kind {name}", removed, patience)


async def is_installed(conn: Connection, name: str) -> bool:
    """Return whether a kind with this name is installed, with any spec."""
    known = await conn.fetchrow(_KIND, name)
    return known is not None and known["fingerprint"] is not None


async def require(conn: Connection, specs: Iterable[tuple[str, KindSpec]]) -> None:
    """Raise ConfigError unless all these kinds are installed with equal specs. Each kind is given with the name by
    which it can be installed."""
    for name, spec in specs:
        known = await conn.fetchrow(_KIND, spec.name)
        if known is None or known["fingerprint"] is None:
            raise ConfigError(f"kind {spec.name} is not installed in this database; run: farrier kind install {name}")
        if known["relation"] is None:
            raise ConfigError(
                f"the table of kind {spec.name} was dropped; to create it again, run farrier kind install {name}; "
                "otherwise remove the kind from controller.kinds"
            )
        if known["fingerprint"] != catalog.fingerprint(spec):
            raise ConfigError(
                f"the states, edges, limits or actions of kind {spec.name} in this database differ from this "
                f"program's; run: farrier kind install {name}"
            )


async def _make(conn: Connection, kind: Installable) -> bool:
    """Create the kind's table, unless it was kept at a removal. Returns whether the kind was new."""
    spec = kind.spec
    known = await conn.fetchrow(_KIND, spec.name)
    if known is not None and known["relation"] is None:
        await conn.execute(_FORGET, spec.name)
        known = None
    if known is not None and known["relation"] != spec.relation:
        raise RefusedByModel(
            f"kind {spec.name} is installed with table {known['relation']}, not {spec.relation}",
            hint="Two packages define a kind with this name; rename one of the kinds.",
        )
    if known is None and not await conn.fetchval(_TABLE_EXISTS, spec.relation):
        await _run(conn, kind)
    with _refusals():
        await conn.execute(_MAKE, spec.name, spec.relation)
    return known is None


async def _run(conn: Connection, kind: Installable) -> None:
    """Run the kind's SQL, which cannot end the transaction of the installation."""
    if not kind.sql:
        return
    await conn.execute(_HOLD_SQL, kind.sql)
    with _refusals(f"the SQL of kind {kind.spec.name} fails: "):
        try:
            await conn.execute(_RUN_SQL)
        except _CONTROLS_TRANSACTION as error:
            raise RefusedByModel(
                f"the SQL of kind {kind.spec.name} fails: {session.reason_of(error)}",
                hint="An installation is one transaction. If the SQL has BEGIN, COMMIT, ROLLBACK or SAVEPOINT, remove "
                "them.",
            ) from error


@contextmanager
def _refusals(text: str = "") -> Iterator[None]:
    """Raise refusals as errors of the model, and lock conflicts, which `patiently` handles, unchanged."""
    try:
        yield
    except LOCKED:
        raise
    except session.Refusal as refusal:
        raise RefusedByModel(f"{text}{session.reason_of(refusal)}") from refusal


async def _require_columns(conn: Connection, kind: Installable) -> None:
    missing = [row["name"] for row in await conn.fetch(_MISSING_COLUMNS, kind.spec.relation, sorted(kind.columns))]
    if missing:
        raise RefusedByModel(
            f"{kind.spec.relation} lacks columns: {', '.join(missing)}",
            hint="The kind's table must have every column that create fills, that runs write, or that a snapshot "
            "requires.",
        )


async def _require_patterns(conn: Connection, spec: KindSpec) -> None:
    """Refuse a pattern that Python accepts and PostgreSQL does not, because it would make every INSERT fail."""
    for action, asked in spec.requests.items():
        for name, field in describe(asked.params).fields.items():
            pattern = (field.items or field).pattern
            with _refusals(f"kind {spec.name}: {action} has a pattern for {name} that PostgreSQL rejects: "):
                await conn.fetchval(_TRY_PATTERN, pattern)


async def _require_labels(conn: Connection, spec: KindSpec) -> None:
    """Refuse a label that a layer of another kind has, because metrics and limits could not tell the layers apart."""
    taken = await conn.fetchrow(_TAKEN_LABEL, spec.name, [layer.label for layer in spec.every_layer])
    if taken is not None:
        raise RefusedByModel(
            f"kind {spec.name} has a layer with the label {taken['label']}, which layer {taken['layer']} of kind "
            f"{taken['kind']} already has",
            hint="Rename the kind or its layer, or set KindLayer(label=…) to another label.",
        )


async def _require_states(conn: Connection, spec: KindSpec, layer: KindLayer) -> None:
    """Refuse a change that would leave resources in a state that the kind does not have, in a state that became
    terminal, or without a state in a new layer. The table is locked only if such resources may exist."""
    living = set(layer.states) - layer.terminal
    if not await conn.fetchval(_LOST, spec.name, layer.name, sorted(living)):
        return
    inhabited = {row["state"] for row in await conn.fetch(_INHABITED, spec.name, layer.name)}
    if None in inhabited:
        column, clock, first = layer.name, f"{layer.name}_entered_at", min(layer.first)
        raise RefusedByModel(
            f"resources of kind {spec.name} have NULL in column {column} or {clock}, so they have no state in layer "
            f"{layer.name}",
            hint=f"Write a state of the layer into each row, such as: UPDATE {spec.relation} SET {column} = "
            f"coalesce({column}, '{first}'), {clock} = farrier.now(), version = version + 1 WHERE {column} IS NULL OR "
            f"{clock} IS NULL",
        )
    if lost := sorted(inhabited - set(layer.states)):
        raise RefusedByModel(
            f"resources of kind {spec.name} are in states that the kind does not have in layer {layer.name}: "
            f"{', '.join(lost)}",
            hint="Keep each of these states with its edges until no resource is in the state. If the layer "
            f"is new, write one of {', '.join(sorted(living))} into column {layer.name} of these rows.",
        )
    if stuck := sorted(inhabited - living):
        raise RefusedByModel(
            f"resources of kind {spec.name} are in states that the new spec makes terminal: {', '.join(stuck)}",
            hint="A resource ends when it enters a terminal state. Keep each of these states non-terminal until no "
            "resource is in the state.",
        )
