"""A DSN taken apart, and put as every supported Python reads it.

Called by `pool` and `hosts` alone. Guarantees: several hosts of which one is an IPv6 address in brackets are read like
any others, also where `urlsplit` knows brackets around the only host alone (Debian 12's Python 3.11, and Python's next
releases). Says nothing of what a DSN means; the driver does.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z]+://)(?P<login>[^/?#]*@)?(?P<hosts>[^/?#@]*)(?P<rest>.*)", re.DOTALL)


def split(dsn: str) -> SplitResult:
    """What `urlsplit` answers, with the hosts in it. Raises ValueError for what is no URL."""
    found = _AUTHORITY.fullmatch(dsn)
    if found is None or "[" not in found["hosts"]:
        return urlsplit(dsn)
    login = found["login"] or ""
    without = urlsplit(f"{found['scheme']}{login}{found['rest']}")
    return without._replace(netloc=login + found["hosts"])


def for_driver(dsn: str) -> str:
    """The same DSN with its hosts in the query where the authority could not hold them: the driver asks `urlsplit`."""
    parts = split(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    if "[" not in hosts or "," not in hosts:
        return dsn
    # What the authority names goes before the query's host and port.
    kept = [item for item in parts.query.split("&") if item and item.partition("=")[0] not in ("host", "port")]
    return f"{parts.scheme}://{login}{at}{parts.path}?{'&'.join([*kept, f'host={hosts}'])}"
