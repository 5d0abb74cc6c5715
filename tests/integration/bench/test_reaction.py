"""The floor of the benchmark of reactions: a worker of two statements."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bench import fleet, reaction
from bench.ground import Ground, ground
from tests.support import pg

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full


@pytest.fixture
async def empty(pg_server: pg.Server) -> AsyncIterator[Ground]:
    async with pg_server.copy(pg.EMPTY) as database, ground(database.dsn) as clean:
        yield clean


async def test_the_bare_worker_answers_each_intent_and_records_its_transition(empty: Ground) -> None:
    await fleet.fill(empty, 3)
    nodes = list(await fleet.ids(empty))
    took = await reaction.through_bare_worker(empty, nodes)
    assert len(took) == 3
    answered = "SELECT count(*) FROM farrier.intents WHERE status = 'accepted'"
    recorded = "SELECT count(*) FROM farrier.history WHERE layer = 'status' AND to_value = 'quarantined'"
    left = "SELECT count(*) FROM farrier.wakes"
    assert [await empty.pool.fetchval(count) for count in (answered, recorded, left)] == [3, 3, 0]
