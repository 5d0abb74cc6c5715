"""Splits a DSN, and connects to the first of its hosts that accepts the session.

Module `pool` uses this module for every connection; `wiring` uses the class `Renewable` for a DSN from a file. The
driver has one time limit for all hosts of a DSN together, so a host that vanished uses up the time of the hosts after
it. In this module, each host has a separate time limit, and the host that accepted the last session is tried first,
unless a session there has ended since. A host accepts the session only if it fits the DSN's `target_session_attrs`.

A list of hosts may include an IPv6 address in brackets. The `urlsplit` of some Pythons (Debian 12's 3.11, and the next
releases) accepts brackets only around a single host. This module only splits the DSN; the driver interprets it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import asyncpg
import msgspec

# The server refuses a setting of the session: the driver sends every key of the DSN that it does not know as a setting.
REFUSED_SETTINGS = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
# The server refuses a setting, the login or the database; a retry or another host would have the same result.
DEFINITE = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    *REFUSED_SETTINGS,
)
# Any other refusal of a new connection: the operator may allow connections again, whatever the SQLSTATE.
ELSEWHERE = (OSError, asyncpg.PostgresError, asyncpg.InternalClientError)

_DEFAULT_PORT = "5432"
_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z]+://)(?P<login>[^/?#]*@)?(?P<hosts>[^/?#@]*)(?P<rest>.*)", re.DOTALL)


class Renewable(str):
    """A DSN whose file may change while the process runs. As a text, the object is the DSN that was read at the start;
    `present` is the DSN that the last connection used."""

    __slots__ = ("_read", "present")
    _read: Callable[[], Awaitable[str]]
    present: str

    @classmethod
    def of(cls, dsn: str, read: Callable[[], Awaitable[str]]) -> Renewable:
        made = cls(dsn)
        made._read, made.present = read, dsn
        return made

    async def renewed(self) -> str:
        """Return the DSN for a new connection."""
        self.present = await self._read()
        return self.present


class Host(msgspec.Struct, frozen=True):
    """One of several hosts of a DSN. A name that begins with a slash is a directory of Unix sockets."""

    name: str
    port: int


class NoHostServes(OSError):
    """No host of the DSN accepts the session. The text has the reason for each host."""


class Hosts:
    """The hosts of one DSN, shared by all connections of a pool. If the file of the DSN changes, later connections use
    the new DSN."""

    def __init__(self, dsn: str) -> None:
        self._given = dsn
        self._use(dsn)

    def _use(self, dsn: str) -> None:
        self._present = dsn
        self._dsn = for_driver(dsn)
        self._hosts = listed(dsn)
        self._first = 0

    async def connect(self, *_none: object, **options: Any) -> Any:
        """Open a connection to the first host that accepts the session. `options` are the options of `asyncpg.connect`;
        their `timeout` is the time limit of one host. Raises NoHostServes or, if the DSN names only one host, the
        driver's errors."""
        if isinstance(self._given, Renewable) and (present := await self._given.renewed()) != self._present:
            self._use(present)
        dsn, hosts, first = self._dsn, self._hosts, self._first  # another connection may replace them meanwhile
        if not hosts:
            return await asyncpg.connect(dsn, **options)
        reasons = []
        for step in range(len(hosts)):
            place = (first + step) % len(hosts)
            host = hosts[place]
            try:
                connection = await asyncpg.connect(dsn, host=host.name, port=host.port, **options)
            except ELSEWHERE as failure:
                self._pass_over(hosts, place)
                if isinstance(failure, DEFINITE):
                    raise
                reasons.append(f"{host.name}:{host.port}: {reason_of_failure(failure)}")
            except BaseException:  # the caller gave up: its next attempt begins after this host
                self._pass_over(hosts, place)
                raise
            else:
                if hosts is self._hosts:
                    self._first = place
                # Its host may be the cause, so the next connection is tried elsewhere first.
                connection.add_termination_listener(partial(self._pass_over, hosts, place))
                return connection
        raise NoHostServes("; ".join(reasons))

    def _pass_over(self, hosts: Sequence[Host], place: int, *_ended: object) -> None:
        if hosts is self._hosts and self._first == place:
            self._first = (place + 1) % len(hosts)


def present(dsn: str) -> str:
    """Return the DSN that the last connection used."""
    return dsn.present if isinstance(dsn, Renewable) else dsn


def split(dsn: str) -> SplitResult:
    """Return the result of `urlsplit`, including the hosts. Raises ValueError for a text that is not a URL."""
    found = _AUTHORITY.fullmatch(dsn)
    if found is None or "[" not in found["hosts"]:
        return urlsplit(dsn)
    login = found["login"] or ""
    without = urlsplit(f"{found['scheme']}{login}{found['rest']}")
    return without._replace(netloc=login + found["hosts"])


def for_driver(dsn: str) -> str:
    """Return an equivalent DSN. If the driver's `urlsplit` would refuse the hosts in the authority, they are moved to
    the query."""
    parts = split(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    if "[" not in hosts or "," not in hosts:
        return dsn
    # The hosts of the authority take precedence over the query's host and port.
    kept = [item for item in parts.query.split("&") if item and item.partition("=")[0] not in ("host", "port")]
    return f"{parts.scheme}://{login}{at}{parts.path}?{'&'.join([*kept, f'host={hosts}'])}"


def reason_of_failure(failure: Exception) -> str:
    """Return why a connection could not be opened."""
    if isinstance(failure, TimeoutError) and not str(failure):  # the driver's error for its time limit has no text
        return "no connection within the time limit (database.connect_timeout)"
    return str(failure) or type(failure).__name__


def listed(dsn: str) -> tuple[Host, ...]:
    """Return the hosts that a DSN or PGHOST lists. The result is empty for a single host, and for an invalid list,
    which the driver refuses."""
    try:
        parts = split(dsn)
        options = dict(parse_qsl(parts.query))
        inside = parts.netloc.rpartition("@")[2]
        names = (inside or options.get("host") or os.environ.get("PGHOST", "")).split(",")
        ports = ("" if inside else options.get("port", "")) or os.environ.get("PGPORT") or _DEFAULT_PORT
        return _paired(names, ports.split(","), decode=bool(inside))
    except ValueError:
        return ()


def _paired(names: Sequence[str], ports: Sequence[str], *, decode: bool) -> tuple[Host, ...]:
    """Return each name with its port, or with the default port."""
    if len(names) == 1 or not all(names):
        return ()
    defaults = repeat(ports[0], len(names)) if len(ports) == 1 else ports
    return tuple(_host(name, port, decode=decode) for name, port in zip(names, defaults, strict=True))


def _host(given: str, default: str, *, decode: bool) -> Host:
    if given.startswith("/"):
        return Host(given, int(default))
    name, _, port = given[1:].partition("]") if given.startswith("[") else given.partition(":")
    port = port.removeprefix(":") or default
    return Host(unquote(name), int(unquote(port))) if decode else Host(name, int(port))
