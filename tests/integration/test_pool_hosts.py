"""Connections: several hosts in one DSN, some of them IPv6 addresses in brackets, parsed alike by every Python."""

from __future__ import annotations

from collections.abc import Callable
from urllib import parse

import pytest

from farrier.io.connections import hosts as hosts_of_dsns
from farrier.io.connections import pool
from tests.support import pg, proxy
from tests.support.sockets import free_port


def strict(url: str, *more: str, **options: bool) -> parse.SplitResult:
    """`urlsplit` of a Python that accepts brackets only around a single host, as that of Debian 12."""
    parts = _urlsplit(url, *more, **options)
    before, bracket, after = parts.netloc.rpartition("@")[2].partition("[")
    if bracket and (before or after.partition("]")[2][:1] not in ("", ":")):
        raise ValueError("Invalid IPv6 URL")
    return parts


_urlsplit: Callable[..., parse.SplitResult] = parse.urlsplit


@pytest.fixture(params=["this python", "a strict python"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "a strict python":
        monkeypatch.setattr(parse, "urlsplit", strict)
        monkeypatch.setattr(hosts_of_dsns, "urlsplit", strict)


@pytest.mark.parametrize(
    "hosts",
    [
        "127.0.0.1:{live}",
        "[::1]:{dead},127.0.0.1:{live}",
        "127.0.0.1:{dead},[::1]:{dead},127.0.0.1:{live}",
        "127.0.0.1:{live},[::1]:{dead}",
    ],
)
async def test_a_host_in_brackets_may_be_one_of_several(db: pg.Database, hosts: str) -> None:
    with free_port() as dead:
        async with proxy.before(db.dsn) as front:
            head, port, rest = front.dsn.partition(f"127.0.0.1:{front.port}")
            assert port
            conn = await pool.connect(head + hosts.format(dead=dead, live=front.port) + rest, patience=pg.PATIENCE)
            assert await conn.fetchval("SELECT current_database()") == await database_of(db)
            await conn.close()


async def database_of(db: pg.Database) -> str:
    async with db.connect() as conn:
        return str(await conn.fetchval("SELECT current_database()"))


@pytest.mark.parametrize(
    ("dsn", "given"),
    [
        ("postgresql://me:x@[::1]:5/f?host=a&port=1", "postgresql://me:x@[::1]:5/f?host=a&port=1"),
        ("postgresql://a,b/f", "postgresql://a,b/f"),
        (
            "postgresql://me:x@[::1],b:5/f?host=a&port=1&target_session_attrs=read-write",
            "postgresql://me:x@/f?target_session_attrs=read-write&host=[::1],b:5",
        ),
        ("postgres://a,[::1]/f", "postgres:///f?host=a,[::1]"),
    ],
)
def test_the_driver_gets_the_hosts_where_it_can_read_them(dsn: str, given: str) -> None:
    assert hosts_of_dsns.for_driver(dsn) == given


def test_hosts_in_brackets_are_shown_as_they_were_given() -> None:
    shown = pool.redacted("postgresql://me:hunter2@[::1],b:5432/f?target_session_attrs=read-write")
    assert shown == "postgresql://me@[::1],b:5432/f?target_session_attrs=read-write"
