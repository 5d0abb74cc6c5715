"""Splits a DSN, and rewrites it so that the driver can parse it on every supported Python.

Only `pool` and `hosts` use these functions; `wiring` uses the class `Renewable` for a DSN from a file. A list of hosts
may include an IPv6 address in brackets. The `urlsplit` of some Pythons (Debian 12's 3.11, and the next releases)
accepts brackets only around a single host. This module only splits the DSN; the driver interprets it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

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
