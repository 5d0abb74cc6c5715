"""`--follow`: each change is printed once, also one that is committed late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from farrier import config
from farrier.cli.history import changes
from farrier.cli.settings import connection
from farrier.cli.settings.connection import CommandSession
from farrier.io.connections.pool import Connection
from farrier.model.views.history import HistoryEntry, HistoryFilter
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.support import pg
from tests.support.web import open_site

ADD = "SELECT farrier.register_node($1)"


@pytest.fixture(params=["database", "api"])
async def session(request: pytest.FixtureRequest, db: pg.Database, backend: Backend) -> AsyncIterator[CommandSession]:
    async with serving(open_site(backend).app, host="127.0.0.1", port=0) as url:
        flags = {"database.dsn": db.dsn} if request.param == "database" else {"client.api": url}
        async with connection.opened(config.load(environment={}, flags=flags)) as opened:
            yield opened


def following(session: CommandSession, wanted: HistoryFilter, *, newest: int = 50) -> AsyncIterator[list[HistoryEntry]]:
    return changes.follow(session, wanted, newest=newest, period=timedelta(0))  # type: ignore[return-value]


def names(changes: list[HistoryEntry]) -> list[str]:
    return sorted({change.name for change in changes})


async def test_the_newest_changes_come_first_and_then_each_later_one_once(
    session: CommandSession, conn: Connection
) -> None:
    for name in ("a", "b", "c"):
        await conn.execute(ADD, name)
    changes = following(session, HistoryFilter(layers=("status",)), newest=2)
    assert [change.name for change in await anext(changes)] == ["b", "c"]
    await conn.execute(ADD, "d")
    assert names(await anext(changes)) == ["d"]
    await conn.execute(ADD, "e")
    assert names(await anext(changes)) == ["e"]


async def test_a_change_that_is_committed_after_later_ones_is_not_missed(
    db: pg.Database, session: CommandSession, conn: Connection
) -> None:
    await conn.execute(ADD, "a")
    changes = following(session, HistoryFilter())
    assert names(await anext(changes)) == ["a"]
    async with db.connect() as slow:
        async with slow.transaction():
            await slow.execute(ADD, "slow")
            await conn.execute(ADD, "fast")
            assert names(await anext(changes)) == ["fast"]
        assert names(await anext(changes)) == ["slow"]


async def test_the_filter_applies_to_later_changes_too(session: CommandSession, conn: Connection) -> None:
    await conn.execute(ADD, "a")
    changes = following(session, HistoryFilter(resource=("node", "a"), targets=("quarantined",)))
    await conn.execute(ADD, "b")
    await conn.execute("SET session_replication_role = replica")
    await conn.execute(
        "INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)"
        " SELECT 'node', n.id, 9, 'status', 'quarantined', farrier.now(), 'rule', '', 'x', gen_random_uuid(), 1"
        " FROM farrier.nodes n"
    )
    assert [(change.name, change.target_state) for change in await anext(changes)] == [("a", "quarantined")]
