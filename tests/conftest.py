"""Fixtures that every test may ask for. What they do is in `tests.support`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import pg

PG15 = "FARRIER_TEST_PG15_BIN"


# Tests of whole programs: of what only one of them at a time may have, such as the port that a page of the docs names.
ONE_AT_A_TIME = Path(__file__).parent / "e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those run in one."""
    for item in items:
        if item.path.is_relative_to(ONE_AT_A_TIME):
            item.add_marker(pytest.mark.xdist_group("one at a time"))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Tests run on the event loop that the daemon runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def pg_server() -> Iterator[pg.Server]:
    """The PostgreSQL of this test session."""
    with pg.running() as server:
        yield server


@pytest.fixture(scope="session")
def pg15_binaries() -> Path:
    """Programs of the oldest PostgreSQL that is supported; skipped where they are not installed, but never in CI."""
    binaries = os.environ.get(PG15)
    if not binaries:
        complaint = f"{PG15} does not name the directory of PostgreSQL 15's programs"
        if os.environ.get("CI") == "true":
            pytest.fail(complaint)
        pytest.skip(complaint)
    return Path(binaries)


@pytest.fixture(scope="session")
def pg15_server(pg15_binaries: Path) -> Iterator[pg.Server]:
    """A server of the oldest PostgreSQL that is supported."""
    with pg.embedded(pg15_binaries) as server:
        yield server


@pytest.fixture(params=["pg_server", "pg15_server"], ids=["current", "pg15"])
def every_server(request: pytest.FixtureRequest) -> pg.Server:
    """Each supported server in turn."""
    server: pg.Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
async def db(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A migrated database of this test's own, with a clock that can be moved."""
    async with pg_server.database() as database:
        yield database


@pytest.fixture
async def every_db(every_server: pg.Server) -> AsyncIterator[pg.Database]:
    """Like `db`, on each supported server in turn: for tests of what lives in SQL."""
    async with every_server.database() as database:
        yield database


@pytest.fixture
async def empty_db(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A database without farrier's schema."""
    async with pg_server.database(template=None) as database:
        yield database
