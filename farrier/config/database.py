"""The settings of the database: where PostgreSQL is, how many connections it gets, and what may take how long.

A section of `groups.Config`. Shows no password of a DSN.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from farrier.log import mask_urls


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


class DatabaseConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where PostgreSQL is, and how many connections it gets from one process."""

    dsn: Annotated[
        str,
        Meta(
            description="postgresql:// URL of the server; several hosts with target_session_attrs=read-write "
            "follow a fail-over. For farrier run also systemd:NAME, a credential of the unit that holds the URL. "
            "Empty: the embedded server."
        ),
    ] = ""
    embedded: Annotated[str, Meta(description="Directory of the embedded PostgreSQL. Not together with a DSN.")] = ""
    pgbouncer: Annotated[
        bool,
        Meta(
            description="The DSN leads to PgBouncer in transaction mode: no prepared statements, and polling "
            "instead of LISTEN."
        ),
    ] = False
    db_timeout: Annotated[
        timedelta,
        Meta(
            description="How long start-up tries to reach the server before it gives up with exit code 4; "
            "long enough for a fail-over or a machine that boots."
        ),
    ] = _seconds(60)
    connect_timeout: Annotated[
        timedelta,
        Meta(
            description="How long one host of the DSN may take to accept a connection before the next host is tried. "
            "A server in reach accepts in milliseconds; shorter than 5 s, in which a caller gives up."
        ),
    ] = _seconds(3)
    statement_timeout: Annotated[
        timedelta,
        Meta(
            description="How long the loop waits for a statement before it drops the connection and looks for the host "
            "that serves. Its statements take milliseconds; with connect_timeout this bounds how late a fail-over "
            "is followed when the old primary vanished without a word."
        ),
    ] = _seconds(5)
    read_timeout: Annotated[
        timedelta,
        Meta(
            description="The same for lists, pages and the figures of the fleet: they read many rows, and no node "
            "waits for them."
        ),
    ] = _seconds(30)
    pool_max: Annotated[
        int,
        Meta(
            ge=2,
            le=100,
            description="Connections of the pool. Statements are batched, so a few are enough for any fleet.",
        ),
    ] = 8

    def __post_init__(self) -> None:
        if self.dsn and self.embedded:
            raise ValueError("give either a DSN or the directory of an embedded server, not both")
        if not timedelta(0) < self.connect_timeout < _seconds(5):
            raise ValueError("connect_timeout must be longer than 0 s and shorter than 5 s")
        if min(self.statement_timeout, self.read_timeout) <= timedelta(0):
            raise ValueError("statement_timeout and read_timeout must be longer than 0 s")

    @override
    def __repr__(self) -> str:
        return f"DatabaseConfig(dsn={mask_urls(self.dsn)!r}, embedded={self.embedded!r}, …)"
