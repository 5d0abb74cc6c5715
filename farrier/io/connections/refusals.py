"""Converts refusals of PostgreSQL to texts for clients.

farrier's SQL functions raise SQLSTATEs of class FR with a text; this module adds the texts for constraints and missing
rights. The data of a row (the `detail` of an error) is never shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg

from farrier.errors import DatabaseUnreachable, MalformedRequest, RefusedByModel
from farrier.io.connections import session
from farrier.io.connections.pool import Connection, Pool

_MALFORMED = "FR400"
# The SQLSTATE classes of a number out of range, and of a text or JSON that is larger or deeper than the server accepts.
_DATA_CLASSES = ("22", "54")

# Constraints that registrations at the same moment can violate.
_TAKEN = {
    "nodes_maas": ("another node of this site has the same MAAS ID", "give each node its own MAAS ID"),
    "node_bmcs_one": ("another node has this BMC", "correct the address, or delete the other node first"),
    "node_identities_one": (
        "another node has this machine",
        "delete one of the two, or remove its BMC details",
    ),
    "node_agents_key": ("the agent of another node has this key", "make a new random key"),
    "node_macs_pkey": ("another node has this MAC address", "correct the address, or delete the other node first"),
}
_AGAIN = "nothing was written; send the request again"
_NO_RIGHT_HINT = (
    "reading requires the role farrier_reader, submitting intents requires farrier_intents, and "
    "everything else requires farrier_controller"
)


@asynccontextmanager
async def borrowed(connections: Pool, *, no_right: str = _NO_RIGHT_HINT) -> AsyncIterator[Connection]:
    """Do the same as `session.borrowed`, for client commands: a refusal is raised as `RefusedByModel` or
    `MalformedRequest`. `no_right` is the hint for a missing right."""
    with translated(no_right=no_right):
        async with session.borrowed(connections) as conn:
            yield conn


async def fetch(
    connections: Pool, statement: str, *arguments: Any, no_right: str = _NO_RIGHT_HINT
) -> list[asyncpg.Record]:
    """Run one statement of a client command."""
    async with borrowed(connections, no_right=no_right) as conn:
        return await conn.fetch(statement, *arguments)


@contextmanager
def translated(*, no_right: str = _NO_RIGHT_HINT) -> Iterator[None]:
    """Raise farrier's errors if the server refuses a statement, or if the single connection that the block uses is
    lost. A full disk or a cancelled statement also counts as a refusal, because the server responded. `no_right` is the
    hint for a missing right."""
    try:
        yield
    except session.Refusal as refusal:
        if session.ends_connection(refusal):
            raise DatabaseUnreachable("the server", session.reason_of(refusal)) from refusal
        raise as_refusal(refusal, no_right=no_right) from refusal
    except session.BROKEN as broken:
        if not session.ends_connection(broken):
            raise
        raise DatabaseUnreachable("the server", session.reason_of_break(broken)) from broken


def as_refusal(refusal: Exception, *, no_right: str = _NO_RIGHT_HINT) -> RefusedByModel:
    """Return the refusal as farrier's error."""
    sqlstate = getattr(refusal, "sqlstate", None) or ""
    text = str(getattr(refusal, "message", None) or refusal)
    hint = session.hint_of(refusal)
    if isinstance(refusal, asyncpg.InsufficientPrivilegeError):
        return RefusedByModel(text, hint=no_right, sqlstate=sqlstate)
    if isinstance(refusal, asyncpg.DeadlockDetectedError):
        hint = _AGAIN  # replaces the server's hint, which refers to the server's log
    if isinstance(refusal, (asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError)) and not hint:
        text, hint = _TAKEN.get(refusal.constraint_name or "", (text, hint))
    if isinstance(refusal, session.Unsendable):
        return MalformedRequest(text, hint=hint, sqlstate=sqlstate)
    return of_text(sqlstate, text, hint)


def of_text(sqlstate: str, text: str, hint: str) -> RefusedByModel:
    """Return the refusal with this SQLSTATE as farrier's error."""
    malformed = sqlstate == _MALFORMED or sqlstate.startswith(_DATA_CLASSES)
    return (MalformedRequest if malformed else RefusedByModel)(text, hint=hint, sqlstate=sqlstate)
