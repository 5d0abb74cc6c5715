"""The benchmark of wakes per second with a synchronous standby, on two servers of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bench import wakes
from bench.ground import Ground, ground
from tests.support import pg

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full


@pytest.fixture
async def empty(pg_server: pg.Server) -> AsyncIterator[Ground]:
    async with pg_server.copy(pg.EMPTY) as database, ground(database.dsn) as clean:
        yield clean


async def test_wakes_are_committed_with_a_synchronous_standby_and_without(
    empty: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakes, "_SECONDS", 0.2)
    async with wakes.WAKES.open(empty, 10) as measure:
        for _ in range(2):
            rates = await measure()
            assert set(rates) == {goal.name for goal in wakes.WAKES.goals}
            assert min(reading.value for reading in rates.values()) > 0
