"""Monitors of a test: grants, reports by a login or by the function that servers call, and what the database lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from farrier.io.connections.pool import Connection
from tests.support import pg

NAME = "am"
_REPORT = "SELECT r.verdict, r.reason FROM farrier.report_as($1, $2::jsonb) r ORDER BY r.place"
_STANDING = """
    SELECT n.name, c.id, c.target, c.requested, c.expires_at > farrier.now() AS known
      FROM farrier.node_conditions c JOIN farrier.nodes n ON n.id = c.node
     WHERE c.source = $1 ORDER BY n.name, c.id, c.target
"""
_REFUSED = """
    SELECT r.node, r.id, r.verdict, r.times FROM farrier.monitor_refusals r WHERE r.monitor = $1 ORDER BY r.node, r.id
"""


async def grant(conn: Connection, name: str = NAME, **given: Any) -> None:
    """Grant a monitor the right to state conditions; `given` are parameters of `grant_monitor`."""
    named = ", ".join(f"{parameter} => ${number}" for number, parameter in enumerate(given, start=2))
    statement = f"SELECT farrier.grant_monitor($1{', ' + named if named else ''})"  # names of parameters, from the test
    await conn.execute(statement, name, *given.values())


async def report(conn: Connection, *reports: dict[str, Any], monitor: str = NAME) -> list[tuple[str, str | None]]:
    """Report as a server of the HTTP API does; returns the verdicts with their reasons."""
    records = await conn.fetch(_REPORT, monitor, msgspec.json.encode(reports).decode())
    return [(record["verdict"], record["reason"]) for record in records]


async def standing(conn: Connection, monitor: str = NAME) -> list[tuple[Any, ...]]:
    """The conditions of a monitor: node, ID, target, requested effect, and whether it is known."""
    return [tuple(record) for record in await conn.fetch(_STANDING, f"monitor:{monitor}")]


async def refused(conn: Connection, monitor: str = NAME) -> list[tuple[Any, ...]]:
    """The listed reports that were not taken: node, ID, verdict, times."""
    return [tuple(record) for record in await conn.fetch(_REFUSED, monitor)]


@asynccontextmanager
async def logged_in(db: pg.Database, conn: Connection) -> AsyncIterator[tuple[Connection, str]]:
    """A new login in the monitors' role, and its name, unique because all databases of a server share roles."""
    login = f"monitor_{await conn.fetchval('SELECT current_database()')}"
    await conn.execute(f"CREATE ROLE {login} LOGIN IN ROLE farrier_monitor")
    try:
        async with db.connect() as session:
            await session.execute(f"SET SESSION AUTHORIZATION {login}")
            yield session, login
    finally:
        await conn.execute(f"DROP ROLE {login}")
