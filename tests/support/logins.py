"""The logins of farrier's processes on the database of a test: sessions with the rights of these roles only."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from farrier.model.loop.doors import DoorKind
from tests.support import pg

CONTROLLER = ("farrier_controller",)
ROLES: Mapping[DoorKind, tuple[str, ...]] = {
    DoorKind.PAGES: ("farrier_intents", "farrier_reader"),
    DoorKind.AGENTS: ("farrier_agent",),
}

# Roles belong to the server, so another test may create the same role at the same time.
_CREATE = """
    DO $$ BEGIN
        IF to_regrole('{name}') IS NULL THEN CREATE ROLE {name} LOGIN IN ROLE {roles}; END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$
"""


async def dsn_of(db: pg.Database, *roles: str) -> str:
    """A DSN whose sessions have the rights of these roles, and no others."""
    name = f"test_{'_'.join(roles)}"
    async with db.connect() as conn:
        await conn.execute(_CREATE.format(name=name, roles=", ".join(roles)))
    return f"{db.dsn}{'&' if '?' in db.dsn else '?'}{urlencode({'role': name})}"
