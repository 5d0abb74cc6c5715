"""The settings of the database: address, connections and time limits.

These settings are a section of `groups.Config`. The `repr` of the settings omits the password of a DSN.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from farrier.log import mask_urls


class DatabaseConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The PostgreSQL server, and the connections of one process."""

    dsn: Annotated[
        str,
        Meta(
            description="postgresql:// URL of the server. With several hosts and target_session_attrs=read-write, "
            "farrier follows a fail-over. The value may also be a reference to a file that contains the URL: "
            "systemd:NAME (a credential of the systemd unit) or file:PATH. If empty, farrier uses the embedded "
            "server."
        ),
    ] = ""
    embedded: Annotated[str, Meta(description="Directory of the embedded PostgreSQL. Set either this or dsn.")] = ""
    pgbouncer: Annotated[
        bool,
        Meta(
            description="Set this if the DSN leads to PgBouncer in transaction mode. farrier then uses no prepared "
            "statements, and polls instead of LISTEN."
        ),
    ] = False
    db_timeout: Annotated[
        timedelta,
        Meta(
            description="How long farrier tries to reach the server at start-up before it exits with code 4. The "
            "default covers a fail-over or a reboot of the server."
        ),
    ] = timedelta(seconds=60)
    connect_timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for a connection to one host of the DSN. After this time, farrier tries the next "
            "host. A reachable server accepts a connection within milliseconds. Must be shorter than 5 s."
        ),
    ] = timedelta(seconds=3)
    statement_timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for a statement of the loop. After this time, farrier closes the connection and "
            "tries the hosts of the DSN again. Statements take milliseconds. If an old primary stops "
            "responding, this limit and connect_timeout determine how soon the loop follows the "
            "fail-over."
        ),
    ] = timedelta(seconds=5)
    read_timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for lists, pages and fleet figures. These statements read many rows, and no node "
            "waits for them."
        ),
    ] = timedelta(seconds=30)
    pool_max: Annotated[
        int,
        Meta(
            ge=2,
            le=100,
            description="Number of connections in the pool. farrier batches its statements, so a few connections are "
            "enough for a fleet of any size.",
        ),
    ] = 8

    def __post_init__(self) -> None:
        if self.dsn and self.embedded:
            raise ValueError("set either dsn or embedded, not both")
        if not timedelta(0) < self.connect_timeout < timedelta(seconds=5):
            raise ValueError("connect_timeout must be longer than 0 s and shorter than 5 s")
        if min(self.statement_timeout, self.read_timeout) <= timedelta(0):
            raise ValueError("statement_timeout and read_timeout must be longer than 0 s")

    @property
    def refers(self) -> bool:
        """Whether `dsn` is a reference to a file that contains the DSN."""
        return self.dsn.startswith(("file:", "systemd:"))

    @override
    def __repr__(self) -> str:
        return f"DatabaseConfig(dsn={mask_urls(self.dsn)!r}, embedded={self.embedded!r}, …)"
