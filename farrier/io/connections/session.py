"""Borrows a connection, runs one transaction on it, and classifies errors of PostgreSQL.

Every StateIO uses this module. If the database is not available, callers get `DatabaseUnreachable` and no other error.
If PostgreSQL refuses a statement, its error is raised unchanged, and `classify` classifies the error. If a connection's
server is silent, gone or no longer writable, the connection is not used again.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import asyncpg

from farrier.errors import DatabaseUnreachable
from farrier.io.connections.pool import CONNECTION_ERRORS, STOP_SECONDS, Connection, Pool

# How long to wait for a free or a new connection: the caller may act for a few seconds only. Longer than one host may
# take (`database.connect_timeout`), so that each attempt gets past a host that vanished.
_ACQUIRE_SECONDS = 5.0
# The errors of an operation whose connection is lost. If such an error is also a ValueError, the connection is fine,
# and the driver cannot encode a value.
BROKEN = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.InternalClientError)


class Unsendable(Exception):
    """The driver cannot encode a value: a number is out of range, or a text is not valid UTF-8. The error text does not
    contain the value."""


_CANCELLED = (
    "if the statement_timeout of the login or the database is the cause, run ALTER ROLE … SET statement_timeout = 0; "
    "farrier has its own time limits"
)

# Refusals by the database, or by the driver before it sends.
Refusal = (asyncpg.PostgresError, Unsendable)


class Trouble(enum.Enum):
    """The way to handle a refusal."""

    DATA = "data"  # a part of what was sent is the cause: find this part
    MOMENT = "moment"  # deadlock, serialisation, lock time-out: send the same again
    GONE = "gone"  # the server cannot work: give up


# The classes that are about a value, or about a statement or function that fails whenever it is sent.
_DATA = (
    "0A",  # not supported
    "20",  # a function has no case for the value
    "21",  # more rows than one
    "22",  # a value out of its range or form
    "23",  # a constraint
    "25",  # not in this state of the transaction
    "2B",  # something depends on what is to be dropped
    "2F",  # an SQL function failed
    "38",  # a function in another language failed
    "39",  # a function in another language returned an invalid value
    "42",  # syntax, a missing object or right
    "44",  # not in the view
    "54",  # larger or deeper than the server accepts
    "P0",  # raised by a function
    "FR",  # raised by farrier's functions
)
_BY_CLASS = dict.fromkeys(_DATA, Trouble.DATA) | {"40": Trouble.MOMENT, "55": Trouble.MOMENT}
# SQLSTATEs of class 25: a server that has become, or still is, a standby; and two time-outs that end the connection.
_OF_THE_SERVER = frozenset({"25006", "25P03", "25P04"})
# The classes of a broken connection, and of a server that stops or does not accept connections yet.
_NOT_SERVING = ("08", "57P")


def classify(error: Exception) -> Trouble:
    """Classify an error by the class of its SQLSTATE. An unknown class counts as `GONE`."""
    if isinstance(error, Unsendable):
        return Trouble.DATA
    sqlstate = getattr(error, "sqlstate", None) or ""
    return Trouble.GONE if sqlstate in _OF_THE_SERVER else _BY_CLASS.get(sqlstate[:2], Trouble.GONE)


def reason_of(error: Exception) -> str:
    """Return the error's message and hint. Its `detail` is omitted, because it contains the row's data."""
    hint = hint_of(error)
    message = getattr(error, "message", None) or str(error)
    return f"{message} ({hint})" if hint else str(message)


def hint_of(error: Exception) -> str:
    """Return the server's hint. For a cancelled statement, return farrier's hint instead; farrier's own time limits
    never cause this error."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return _CANCELLED
    return str(getattr(error, "hint", None) or "")


def reason_of_break(broken: BaseException) -> str:
    if isinstance(broken, TimeoutError):
        return "the time limit for a connection or for the response to a statement was exceeded"
    return str(broken) or type(broken).__name__


def ends_connection(error: BaseException) -> bool:
    """Return whether a connection can no longer be used, because its server is silent, gone, or no longer the writable
    server."""
    if isinstance(error, asyncpg.PostgresError):
        sqlstate = error.sqlstate or ""
        return sqlstate in _OF_THE_SERVER or sqlstate.startswith(_NOT_SERVING)
    broken = isinstance(error, BROKEN) and not isinstance(error, ValueError)
    return broken or isinstance(error, DatabaseUnreachable)


@asynccontextmanager
async def borrowed(pool: Pool) -> AsyncIterator[Connection]:
    """Borrow a connection for one round trip or one transaction. Raises `DatabaseUnreachable` if no connection is
    available, or if the connection or the server fails meanwhile. If the cause of a `Refusal` is the data or a
    transient conflict, the `Refusal` is raised unchanged."""
    conn = None
    try:
        conn = await pool.acquire(timeout=_ACQUIRE_SECONDS)
        try:
            yield conn
        except BaseException as error:
            if ends_connection(error):  # the idle connections end, too: they lead to the same server
                await pool.expire_connections()
            raise
        finally:
            # Runs even while the caller is being cancelled. The driver terminates the connection if its server does not
            # stop the cancelled statement in time.
            with anyio.CancelScope(shield=True), suppress(*CONNECTION_ERRORS):
                await pool.release(conn, timeout=STOP_SECONDS)
    except BROKEN as broken:
        if conn is not None and isinstance(
            broken, ValueError
        ):  # the driver's error for a value that it cannot encode; it quotes the value
            raise Unsendable("a value that PostgreSQL cannot store") from None
        raise DatabaseUnreachable("the pool", reason_of_break(broken)) from broken
    except asyncpg.PostgresError as error:
        # Without a connection no statement was sent, so no data caused the refusal.
        if conn is None or classify(error) is Trouble.GONE:
            raise DatabaseUnreachable("the pool", reason_of(error)) from error
        raise


@asynccontextmanager
async def undone(conn: Connection) -> AsyncIterator[None]:
    """Undo everything that the block does in the database."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), suppress(*CONNECTION_ERRORS):
            await transaction.rollback()


async def fetch(pool: Pool, statement: str, *arguments: Any, within: float | None = None) -> list[asyncpg.Record]:
    """Run one statement whose data cannot cause a refusal. So if the server refuses the statement, the cause is
    transient, and `DatabaseUnreachable` is raised. It is also raised if there is no reply within this many seconds."""
    try:
        with anyio.fail_after(within):
            async with borrowed(pool) as conn:
                return await conn.fetch(statement, *arguments)
    except TimeoutError as late:
        await pool.expire_connections()  # the idle connections lead to the same server
        raise DatabaseUnreachable("the pool", f"no response within {within:g} s") from late
    except Refusal as refusal:
        raise DatabaseUnreachable("the pool", reason_of(refusal)) from refusal
