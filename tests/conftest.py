"""Fixtures for all tests. Their implementation is in `tests.support`."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import logged, pg, programs
from tests.support.full import CURRENT, OLDEST, LeftOut, mark

PG15 = "FARRIER_TEST_PG15_BIN"


# Tests of whole programs, which share resources such as the port that a page of the docs names.
ONE_AT_A_TIME = f"{Path(__file__).parent}/e2e/"
# Each takes minutes. They begin first, so that the run does not end with one worker at work.
LONG = (ONE_AT_A_TIME, *(f"{Path(__file__).parent}/{name}/" for name in ("acceptance", "simulation")))


# `make test` draws fewer examples than the hundred of `make test-all`.
hypothesis.settings.register_profile("short", max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that reports how many cases a run left out."""
    config.pluginmanager.register(LeftOut(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from modules and items of tests, which remain until the end of the run. Tests leave
    few cycles, so it runs rarely."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that `make test` leaves out, and the tests that must run in one process of xdist. Long tests are
    first."""
    mark(items)
    items.sort(key=lambda item: not str(item.path).startswith(LONG))
    for item in items:
        if str(item.path).startswith(ONE_AT_A_TIME):
            item.add_marker(pytest.mark.xdist_group("one at a time"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail a test if a cancellation or an exit escapes from it. Otherwise the task in which anyio runs all tests of the
    session would end, and all later tests would fail, too."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test) and not hasattr(test, "hypothesis"):

        @functools.wraps(test)
        async def contained(*given: Any, **named: Any) -> None:
            try:
                await test(*given, **named)
            except (asyncio.CancelledError, SystemExit, GeneratorExit) as escaped:
                raise AssertionError(f"{type(escaped).__name__} escaped from the test") from escaped

        pyfuncitem.obj = contained


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """A command sets up logging for its whole process, which is the process of the tests."""
    with logged.restored():
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Tests run on the event loop that the daemon runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session", autouse=True)
async def _one_loop(anyio_backend: object) -> AsyncIterator[None]:
    """All tests of a session run on one event loop, so that the connections of a database can outlive a test."""
    yield  # noqa: PT022 - the loop is closed once no fixture that yields is left


@pytest.fixture(scope="session")
def pg_server() -> Iterator[pg.Server]:
    """The PostgreSQL of this test session."""
    with pg.running() as server:
        yield server


@pytest.fixture(scope="session")
def pg15_binaries() -> Path:
    """Programs of the oldest PostgreSQL that is supported."""
    return programs.postgresql(15, PG15)


@pytest.fixture(scope="session")
def pg15_server(pg15_binaries: Path) -> Iterator[pg.Server]:
    """A server of the oldest PostgreSQL that is supported."""
    with pg.embedded(pg15_binaries) as server:
        yield server


@pytest.fixture(params=["pg_server", pytest.param("pg15_server", marks=pytest.mark.full)], ids=[CURRENT, OLDEST])
def every_server(request: pytest.FixtureRequest) -> pg.Server:
    """Each supported server in turn."""
    server: pg.Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def prepared() -> pg.Install | None:
    """What the databases of these tests have in addition to the schema. A module overrides this fixture
    if all its tests need the same."""
    return None


@pytest.fixture
async def db(pg_server: pg.Server, prepared: pg.Install | None) -> AsyncIterator[pg.Database]:
    """A migrated database of this test's own, with a clock that can be moved."""
    async with pg_server.database(prepared=prepared) as database:
        yield database


@pytest.fixture
async def every_db(every_server: pg.Server, prepared: pg.Install | None) -> AsyncIterator[pg.Database]:
    """As `db`, on each supported server in turn, for tests of behaviour that is implemented in SQL."""
    async with every_server.database(prepared=prepared) as database:
        yield database


@pytest.fixture
async def empty_db(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A database without farrier's schema."""
    async with pg_server.copy(pg.EMPTY) as database:
        yield database
