"""Connections to PostgreSQL, pooled and single, with the session settings of farrier.

`wiring` opens the pool and passes it to the StateIOs; the CLI's database commands also use this module. An embedded
server and any other server get the same settings; PgBouncer gets only those that it tracks. If a DSN has several
hosts, `hosts` finds the writable server. Every statement has a time limit in this process. An unreachable server is
retried, and then reported without the password in the DSN. A pooled connection is given back without a round trip, so
code must leave no session state on the connection: no SET without LOCAL, no LISTEN, no session advisory lock. Code that
needs such state uses `connect`.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode, urlunsplit

import anyio
import asyncpg
import msgspec
import structlog
from typing_extensions import override

from farrier import errors
from farrier.io.connections.hosts import (
    DEFINITE,
    ELSEWHERE,
    REFUSED_SETTINGS,
    Hosts,
    for_driver,
    present,
    reason_of_failure,
    split,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Single: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Connection: TypeAlias = Single | PoolConnectionProxy[asyncpg.Record]
else:  # the driver's classes are generic in its stubs only
    Pool = asyncpg.Pool
    Single = Connection = asyncpg.Connection

T = TypeVar("T")

log = structlog.stdlib.get_logger(__name__)

FIRST_PAUSE = timedelta(milliseconds=100)
LONGEST_PAUSE = timedelta(seconds=5)

# Sent at connect. PgBouncer refuses start-up parameters that it does not track, so it gets only `TRACKED`.
SESSION = {
    "search_path": "farrier,pg_temp",
    # These settings determine how the server prints definitions. With other defaults of the database or the login, all
    # definitions would differ from the recorded ones, as if they had been edited by hand.
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    # Overrides the default of the database: a stricter level would break code that waits for a lock and then reads
    # again. A commit is one statement that begins its own transaction.
    "default_transaction_isolation": "read committed",
    # The statements of farrier take milliseconds; compiling a statement takes a hundred milliseconds.
    "jit": "off",
    # The loop's data is in memory or on an SSD: reading five hundred rows by key costs less than a scan.
    "random_page_cost": "1.1",
    # Every statement finds its rows by keys, whatever their values. Planning a statement for each batch gains nothing,
    # and takes longer than running it for one node.
    "plan_cache_mode": "force_generic_plan",
    # Otherwise a plan that was made while a table was empty would scan the table, and would be kept after the table has
    # filled.
    "enable_seqscan": "off",
    # A client that vanished must not keep its row locks for TCP's default of two hours: the server notices within half
    # a minute.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    # A transaction of farrier waits only for the database; if a transaction idles, its process has ended.
    "idle_in_transaction_session_timeout": "30s",
}
TRACKED = {"application_name": "farrier", "timezone": "UTC"}

# Hosts with ports. A text in the place of a port may be part of a password; more than five digits are never a port.
_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:,]*)(:[0-9]{1,5})?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")
_PORTS = range(1, 65536)
# No directory of sockets, so that a connection to it fails after the driver has parsed the rest of a DSN.
_NOWHERE = os.devnull
_NUMBER = re.compile(r"-?[0-9]{1,20}")
_UNREADABLE = "(unreadable DSN)"
# These SSL modes verify the certificate's issuer, and read this file unless another file is configured.
_VERIFYING = frozenset({"verify-ca", "verify-full"})
_USUAL_ROOT = "~/.postgresql/root.crt"


# The advice if PgBouncer refuses a setting of a session. There are three texts: for a pool, for a separate connection,
# and for a session in which only keys of the DSN can be the cause.
_FOR_A_POOL = "if it is PgBouncer, set database.pgbouncer = true"
_FOR_A_SESSION = "this requires a direct connection; if it is PgBouncer, use --dsn with the address of PostgreSQL"
_FOR_KEYS = "correct this key of the DSN, or remove it"

# How long to wait for the server to cancel a statement. A running server needs milliseconds. Waiting longer for a
# server that vanished would only keep other tasks from a connection.
STOP_SECONDS = 1.0

# The errors of an operation that are caused by its connection.
CONNECTION_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Timeouts(msgspec.Struct, frozen=True):
    """How long one host may take to accept a connection, and to respond to one statement; None allows any time. If a
    statement does not respond in time, TimeoutError is raised."""

    connect: timedelta = timedelta(seconds=3)
    statement: timedelta | None = timedelta(seconds=5)


# The time by which a fail-over may delay a loop. The settings `database.connect_timeout` and
# `database.statement_timeout` document the reasons.
BRIEF = Timeouts()
# Migrations: an index of a large table takes minutes, and an operator watches.
UNHURRIED = Timeouts(statement=None)


class _Pooled(Single):
    """A connection without the reset query, a round trip for each release. Open transactions are still ended."""

    @override
    def get_reset_query(self) -> str:
        return ""

    @override
    async def close(self, *, timeout: float | None = None) -> None:
        """Cancel the running statement and close the connection. Does not wait for a server that does not respond."""
        with anyio.CancelScope(shield=True), suppress(*CONNECTION_ERRORS):
            await super().close(timeout=STOP_SECONDS)
        self.terminate()


async def connect(dsn: str, *, patience: timedelta, pgbouncer: bool = False, timeouts: Timeouts = UNHURRIED) -> Single:
    """Open a separate connection for LISTEN, migrations and single commands; the caller closes it.

    Retries until `patience` is over, then raises DatabaseUnreachable. Raises ConfigError for a DSN that cannot be read.
    """
    hosts = Hosts(dsn)

    async def attempt() -> Single:
        connection: Single = await hosts.connect(**_options(timeouts, pgbouncer=pgbouncer))
        return connection

    return await _until_reachable(attempt, dsn, patience=patience, advice=_FOR_KEYS if pgbouncer else _FOR_A_SESSION)


async def reconnect(dsn: str, *, patience: timedelta, pgbouncer: bool, timeouts: Timeouts = BRIEF) -> Single:
    """Do the same as `connect`, in a process that has connected before. Its settings were valid then, so every failure
    is raised as DatabaseUnreachable."""
    try:
        return await connect(dsn, patience=patience, pgbouncer=pgbouncer, timeouts=timeouts)
    except errors.ConfigError as refused:
        raise errors.DatabaseUnreachable(redacted(dsn), str(refused)) from refused


async def require_valid(dsn: str) -> None:
    """Raise ConfigError for a DSN that `connect` would refuse before it reaches a server. Connects to no server."""

    async def attempt() -> None:
        if not _HOSTS.fullmatch(split(dsn).netloc.rpartition("@")[2]):
            raise ValueError
        await asyncpg.connect(for_driver(dsn), host=_NOWHERE, port=min(_PORTS))

    with suppress(errors.DatabaseUnreachable):
        await _until_reachable(attempt, dsn, patience=timedelta(0), advice=_FOR_KEYS)


async def open_pool(
    dsn: str,
    *,
    size: int,
    patience: timedelta,
    pgbouncer: bool = False,
    timeouts: Timeouts = BRIEF,
    init: Callable[[Single], Coroutine[Any, Any, None]] | None = None,
) -> Pool:
    """Open a pool of at most `size` connections. One connection is opened immediately, which proves that the server
    responds.

    Raises the same errors as `connect`. `init` runs on each connection before it serves. `pgbouncer` (transaction mode)
    turns off the features that need a session: prepared statements and start-up parameters.
    """
    hosts = Hosts(dsn)

    async def attempt() -> Pool:
        return await asyncpg.create_pool(
            connect=hosts.connect,
            min_size=1,
            max_size=size,
            # Neither connections nor plans expire, because creating them would delay a run.
            max_inactive_connection_lifetime=0,
            max_queries=sys.maxsize,
            max_cached_statement_lifetime=0,
            connection_class=_Pooled,
            init=init,
            **_options(timeouts, pgbouncer=pgbouncer),
        )

    return await _until_reachable(attempt, dsn, patience=patience, advice=_FOR_KEYS if pgbouncer else _FOR_A_POOL)


def redacted(dsn: str) -> str:
    """Return the DSN in a form that may be shown: user, hosts and database, but never a password."""
    try:
        parts = split(present(dsn))
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return _UNREADABLE
    login, at, hosts = parts.netloc.rpartition("@")
    # An unescaped "/" or "#" in a password moves the rest of it, and the "@", out of the authority.
    misplaced = "@" in parts.path + parts.query + parts.fragment
    if not parts.scheme or misplaced or not _HOSTS.fullmatch(hosts):
        return _UNREADABLE
    user = login.partition(":")[0]
    shown = [(key, value) for key, value in query if "pass" not in key.lower()]
    return urlunsplit((parts.scheme, f"{user}{at}{hosts}", parts.path, urlencode(shown, safe="/,:"), ""))


def _require_root(dsn: str, where: str) -> None:
    """Raise ConfigError if the server's certificate must be verified and the file for this is missing. The driver would
    report a missing default file as a malformed DSN, and a missing named file as an unreachable server."""
    if where == _UNREADABLE:
        return
    query = dict(parse_qsl(split(present(dsn)).query))
    mode = query.get("sslmode") or os.environ.get("PGSSLMODE", "")
    named = query.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    file = named or os.path.expanduser(_USUAL_ROOT)
    if mode.replace("_", "-") in _VERIFYING and not os.access(file, os.R_OK):
        raise errors.ConfigError(
            f"cannot connect to {where}: the root certificate {file}, which sslmode={mode} requires, cannot be read; "
            "set sslrootcert=FILE in the DSN to the certificate of the authority that signed the server's"
        ) from None


def _options(timeouts: Timeouts, *, pgbouncer: bool) -> dict[str, Any]:
    return {
        "timeout": timeouts.connect.total_seconds(),
        "command_timeout": None if timeouts.statement is None else timeouts.statement.total_seconds(),
        "statement_cache_size": 0 if pgbouncer else 100,
        "server_settings": TRACKED if pgbouncer else SESSION | TRACKED,
    }


def _check_ports(dsn: str, where: str) -> None:
    """Refuse an invalid port, because the driver passes it to the event loop, which crashes or truncates it."""
    try:
        parts = split(dsn)
        query = parse_qsl(parts.query)
    except ValueError:
        return  # the driver reports this, too
    hosts = parts.netloc.rpartition("@")[2].split(",")
    given = [host.rpartition(":")[2] for host in hosts if ":" in host and not host.endswith("]")]
    given += [port for key, value in query if key == "port" for port in value.split(",")]
    given += os.environ.get("PGPORT", "").split(",")
    if any(_NUMBER.fullmatch(port) and int(port) not in _PORTS for port in given):
        raise errors.ConfigError(
            f"cannot connect to {where}: expected a port from 1 to 65535; correct the DSN, or PGPORT"
        )


async def _until_reachable(attempt: Callable[[], Awaitable[T]], dsn: str, *, patience: timedelta, advice: str) -> T:
    _check_ports(dsn, redacted(dsn))
    deadline = anyio.current_time() + patience.total_seconds()
    pause = FIRST_PAUSE.total_seconds()
    while True:
        try:
            return await attempt()
        except REFUSED_SETTINGS as refusal:
            raise errors.ConfigError(
                f"{redacted(dsn)} refused a setting of the session: {refusal}; correct this key of the DSN, or remove "
                "it. The server gets every key that the driver does not know, such as connect_timeout and keepalives "
                "of libpq"
            ) from refusal
        except DEFINITE as refusal:
            raise errors.DatabaseUnreachable(redacted(dsn), str(refusal)) from refusal
        except ELSEWHERE as failure:
            where = redacted(dsn)
            # PgBouncer has one error for every refused connection. One that is full or stops refuses only for a while.
            if isinstance(failure, asyncpg.ProtocolViolationError) and "startup parameter" in str(failure):
                raise errors.ConfigError(f"{where} refused the session settings ({failure}); {advice}") from failure
            _require_root(dsn, where)
            reason = reason_of_failure(failure)
            if anyio.current_time() + pause > deadline:
                raise errors.DatabaseUnreachable(where, reason) from failure
            log.warning("database.unreachable", where=where, reason=reason, next_try_in=round(pause, 2))
        except (ValueError, asyncpg.InterfaceError):
            _require_root(dsn, redacted(dsn))
            # The driver quotes the part it could not read, which may be the password: the new error has neither its
            # text nor its chain.
            raise errors.ConfigError(
                f"cannot read the DSN {redacted(dsn)} (--dsn or database.dsn); expected "
                "postgresql://user:password@host:port/database, with special characters in the password "
                "percent-encoded, or a reference to a file with such a URL: file:PATH or systemd:NAME"
            ) from None
        await anyio.sleep(pause * random.uniform(0.8, 1.2))
        pause = min(pause * 2, LONGEST_PAUSE.total_seconds())
