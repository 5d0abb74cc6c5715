"""Pages of history: every change that matches the filter once and in order, and at the same cost for every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.errors import RefusedByModel
from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.history import HistoryEntry, HistoryFilter, Order
from tests.support import pasts, pg, reading

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BEGAN + timedelta(minutes=9)
PAGES = "queries/history"


pool, queries = reading.pool, reading.queries


@pytest.fixture
async def everything(conn: Connection) -> list[HistoryEntry]:
    """A history of forty versions of five resources."""
    await pasts.make(conn, seed=5, versions=40, began=BEGAN)
    return await pasts.table(conn)


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
async def test_pages_hold_every_change_once_and_in_order_wherever_they_are_cut(
    queries: PostgresQueries, everything: list[HistoryEntry], limit: int
) -> None:
    newest = await pasts.walk(queries, HistoryFilter(), Order.NEWEST, limit=limit)
    oldest = await pasts.walk(queries, HistoryFilter(), Order.OLDEST, limit=limit)
    assert oldest == sorted(everything, key=pasts.by_time)
    assert newest == oldest[::-1]


WANTED: list[tuple[HistoryFilter, Callable[[HistoryEntry], bool]]] = [
    (HistoryFilter(resource=("node", "gpu-2")), lambda past: past.name == "gpu-2"),
    (HistoryFilter(resource=("maas_region", pasts.SITE)), lambda past: past.kind == "maas_region"),
    (HistoryFilter(kinds=("widget", "maas_region")), lambda past: past.kind != "node"),
    (HistoryFilter(layers=("status", "management")), lambda past: past.layer in ("status", "management")),
    (HistoryFilter(sources=("offline",)), lambda past: past.source_state == "offline"),
    (HistoryFilter(targets=("error", "active")), lambda past: past.target_state in ("error", "active")),
    (HistoryFilter(causes=("timer",)), lambda past: past.cause.startswith("timer")),
    (HistoryFilter(causes=("stage: deploy_via_maas",)), lambda past: past.cause == "stage: deploy_via_maas"),
    (HistoryFilter(causes=("intent", "signal")), lambda past: past.cause.split()[0] in ("intent", "signal:")),
    (HistoryFilter(causes=("sig",)), lambda _: False),
    (HistoryFilter(requested_by=("ann", "bob")), lambda past: past.requested_by == "ann"),
    (HistoryFilter(reason="no HEART"), lambda past: "No heart" in past.reason),
    (HistoryFilter(reason="%"), lambda _: False),
    (HistoryFilter(at_least=timedelta(seconds=30.25)), lambda past: (past.seconds_in_source or 0) >= 30.25),
    (HistoryFilter(since=LATER), lambda past: past.at >= LATER),
    (HistoryFilter(until=LATER), lambda past: past.at < LATER),
    (HistoryFilter(since=LATER, until=LATER), lambda _: False),
    (
        HistoryFilter(resource=("node", "gpu-1"), since=LATER, layers=("status",)),
        lambda past: past.name == "gpu-1" and past.at >= LATER and past.layer == "status",
    ),
]


@pytest.mark.parametrize(("wanted", "is_wanted"), WANTED)
async def test_every_order_returns_exactly_the_changes_that_match_the_filter(
    queries: PostgresQueries,
    everything: list[HistoryEntry],
    wanted: HistoryFilter,
    is_wanted: Callable[[HistoryEntry], bool],
) -> None:
    expected = sorted(filter(is_wanted, everything), key=pasts.by_time)
    assert await pasts.walk(queries, wanted, Order.OLDEST, limit=9) == expected
    assert await pasts.walk(queries, wanted, Order.NEWEST, limit=9) == expected[::-1]


async def test_an_age_is_counted_from_the_database_s_now(
    queries: PostgresQueries, everything: list[HistoryEntry], db: pg.Database
) -> None:
    await db.advance(LATER + timedelta(hours=1) - await db.now())
    found = await pasts.walk(queries, HistoryFilter(since=timedelta(hours=2), until=timedelta(hours=1)), Order.OLDEST)
    assert found == sorted((past for past in everything if past.at <= LATER), key=pasts.by_time)


@pytest.mark.usefixtures("everything")
async def test_changes_that_are_made_meanwhile_shift_no_page(queries: PostgresQueries, conn: Connection) -> None:
    before = await pasts.walk(queries, HistoryFilter(), Order.NEWEST)
    page = await queries.history(HistoryFilter(), order=Order.NEWEST, limit=10)
    await conn.execute("UPDATE farrier.nodes SET name = name")
    await conn.execute("SELECT farrier.register_node('gpu-9')")
    rest = await queries.history(HistoryFilter(), order=Order.NEWEST, after=page.following, limit=1000)
    assert [*page.changes, *rest.changes] == before


async def test_history_of_an_unknown_region_is_refused(queries: PostgresQueries) -> None:
    with pytest.raises(RefusedByModel, match="'nowhere'"):
        await queries.history(HistoryFilter(resource=("maas_region", "nowhere")))


MANY = """
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
    SELECT 'node', 1 + v % 500, v, 'status', CASE v WHEN 1 THEN 'retired' ELSE 'active' END,
           timestamptz '2026-01-01T00:00:00Z' + v / 500 * interval '1 s', '', '', '', gen_random_uuid(), 1
      FROM generate_series(1, $1::integer) v
"""


async def test_a_page_reads_a_bounded_number_of_changes_and_the_next_page_goes_on(
    queries: PostgresQueries, conn: Connection
) -> None:
    """Only the very last change matches the filter; the pages before it are empty, and each reads a bounded number."""
    await conn.execute(MANY, 12_000)
    wanted = HistoryFilter(targets=("retired",))
    first = await queries.history(wanted, order=Order.NEWEST, limit=10)
    assert not first.changes
    assert first.following is not None
    assert [past.version for past in await pasts.walk(queries, wanted, Order.NEWEST, limit=10)] == [1]


@pytest.mark.full
@pytest.mark.matrix(keep=2)
@pytest.mark.parametrize("walk", ["newest", "oldest", "newest of one", "oldest of one"])
async def test_a_page_in_the_middle_reads_only_its_own_rows(conn: Connection, walk: str) -> None:
    """The key leads straight into the index, also with the generic plan. Five hundred changes have the same time, as
    after a commit."""
    await conn.execute(MANY, 100_000)
    await conn.execute("ANALYZE farrier.history")
    await conn.execute("PREPARE page AS " + statements.load(PAGES))
    one = "'node', 2" if "of" in walk else "NULL, NULL"
    key = f"'2026-01-01T00:01:40Z', 2, 50000, 'node', 'status', {one}"
    bounds = "'2026-01-01T00:00:01Z', NULL, '2026-01-01T00:03:10Z', NULL"
    plan = await conn.fetchval(
        f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page ('{walk}', {key}, '{{}}', {bounds}, 100, 100, "
        "'{}', '{}', '{}', '{}', '', NULL, '{}', 'infinity')"
    )
    scans = list(of_history(msgspec.json.decode(plan)[0]["Plan"]))
    # The rows of the page, the row of the key, and rows of the same time that are sorted with it.
    assert 100 <= sum(scans) <= 103


def of_history(plan: dict[str, Any]) -> Iterator[float]:
    """The number of rows of the table that each scan of a plan read, over all its loops."""
    if plan.get("Relation Name") == "history":
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for below in plan.get("Plans", ()):
        yield from of_history(below)


async def test_the_readers_role_may_read_history(db: pg.Database, everything: list[HistoryEntry]) -> None:
    async with pg.Database(f"{db.dsn}&options=-c%20role%3Dfarrier_reader").pool(size=1) as connections:
        for order in (Order.NEWEST, Order.OLDEST):
            assert len(await pasts.walk(PostgresQueries(connections), HistoryFilter(), order)) == len(everything)


async def test_a_key_still_continues_when_its_change_was_removed(
    queries: PostgresQueries, everything: list[HistoryEntry], conn: Connection
) -> None:
    ordered = sorted(everything, key=pasts.by_time)
    await conn.execute("DELETE FROM farrier.history WHERE at <= $1", ordered[20].at)
    page = await queries.history(HistoryFilter(), order=Order.OLDEST, after=ordered[20].key, limit=1000)
    assert list(page.changes) == [past for past in ordered if past.at > ordered[20].at]
