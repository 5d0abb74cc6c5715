"""Lists of intents: each matching intent once, newest first, also for a role that may only insert intents."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.errors import MalformedRequest, RefusedByModel
from farrier.io.calls.requests import PostgresRequests
from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries.lists import PostgresQueries
from farrier.model.intents.requests import Registration
from farrier.model.views.intents import WantedIntents
from tests.support import crates, pg, reading
from tests.support.crates import Yard

pool = reading.pool

# Every second intent of two nodes has an answer, and every third one names its client.
ASKED = """
    SELECT farrier.register_node(name) FROM unnest('{gpu-1, gpu-2}'::text[]) name;
    INSERT INTO farrier.intents (node, action, params, requested_by, idempotency_key, api_version)
    SELECT 'gpu-' || 1 + n % 2, (ARRAY['manage', 'cancel'])[1 + n % 2], '{}', CASE WHEN n % 3 = 0 THEN 'ann' END,
           'k' || n, 2
      FROM generate_series(1, 12) n ORDER BY n;
    UPDATE farrier.intents SET status = 'rejected', reason = 'no', answered_at = farrier.now() WHERE id % 2 = 0;
"""


@pytest.fixture
def prepared() -> pg.Install:
    return crates.install


@pytest.fixture
async def conn(db: pg.Database) -> AsyncIterator[Connection]:
    async with db.connect() as connection:
        await connection.execute(ASKED)
        yield connection


@pytest.fixture
async def yard(every_db: pg.Database) -> AsyncIterator[Yard]:
    async with crates.opened(every_db) as opened:
        yield opened


async def ids(pool: Pool, wanted: WantedIntents, limit: int = 1000) -> list[int]:
    """The ids on all pages, in order."""
    found: list[int] = []
    before: int | None = None
    while True:
        page = await PostgresQueries(pool).intents("node", wanted, before=before, limit=limit)
        assert len(page.rows) <= limit
        found += [intent.id for intent in page.rows]
        before = page.following
        if before is None:
            return found


@pytest.mark.usefixtures("conn")
async def test_pages_have_each_matching_intent_once_and_the_newest_first(pool: Pool) -> None:
    everything = list(range(12, 0, -1))
    for wanted, expected in (
        (WantedIntents(), everything),
        (WantedIntents(resource="gpu-2"), [id_ for id_ in everything if id_ % 2]),
        (WantedIntents(statuses=("pending",)), [id_ for id_ in everything if id_ % 2]),
        (WantedIntents(statuses=("pending", "rejected")), everything),
        (WantedIntents(statuses=("pending",), resource="gpu-1"), []),
        (WantedIntents(actions=("manage",)), [id_ for id_ in everything if id_ % 2 == 0]),
        (WantedIntents(requested_by=("ann", "bob"), statuses=("rejected",)), [12, 6]),
    ):
        for limit in (1, 5, 1000):
            assert await ids(pool, wanted, limit) == expected, (wanted, limit)


@pytest.mark.usefixtures("conn")
async def test_an_intent_is_shown_with_its_node_answer_and_parameters(pool: Pool) -> None:
    (shown,) = (await PostgresQueries(pool).intent("node", 6)).rows
    assert (shown.kind, shown.resource, shown.name, shown.action, shown.params) == ("node", 1, "gpu-1", "manage", {})
    assert (shown.status, shown.reason, shown.requested_by) == ("rejected", "no", "ann")
    assert (shown.idempotency_key, shown.api_version) == ("k6", 2)
    assert shown.answered_at is not None
    for kind in ("node", "network_segment", None):
        with pytest.raises(RefusedByModel, match="no intent has the ID 99") as refused:
            await PostgresQueries(pool).intent(kind, 99)
        assert refused.value.sqlstate == "FR404"


@pytest.mark.parametrize("role", ["farrier_intents", "farrier_reader"])
@pytest.mark.usefixtures("conn")
async def test_the_roles_for_intents_and_for_reading_see_intents(db: pg.Database, role: str) -> None:
    async with pg.Database(f"{db.dsn}&options=-c%20role%3D{role}").pool(size=1) as connections:
        queries = PostgresQueries(connections)
        assert len((await queries.intents("node", WantedIntents())).rows) == 12
        assert (await queries.intent("node", 1)).rows[0].name == "gpu-2"
        assert (await queries.intents(None, WantedIntents())).rows == ()


async def test_intents_of_every_other_kind_are_listed_like_those_of_nodes(yard: Yard) -> None:
    queries = PostgresQueries(yard.pool)
    for name in ("c-1", "c-2"):
        await yard.create(name)
        await yard.pool.execute("SELECT farrier.resource_intent('crate', $1, 'delete')", name)
    (newest, *others) = (await queries.intents(None, WantedIntents())).rows
    assert (newest.kind, newest.name, newest.action, newest.status) == ("crate", "c-2", "delete", "pending")
    assert [(intent.name, intent.action) for intent in others] == [
        ("c-2", "create"),
        ("c-1", "delete"),
        ("c-1", "create"),
    ]
    assert (await queries.intent("crate", newest.id)).rows == (newest,)
    for kind, wanted, expected in (
        ("crate", WantedIntents(resource="c-1"), ["delete", "create"]),
        ("crate", WantedIntents(statuses=("accepted",)), ["create", "create"]),
        (None, WantedIntents(statuses=("pending",)), ["delete", "delete"]),
        ("network_segment", WantedIntents(), []),
    ):
        page = await queries.intents(kind, wanted)
        assert ([intent.action for intent in page.rows], page.following) == (expected, None)
    with pytest.raises(MalformedRequest, match="resource 'c-1' is given without its kind"):
        await queries.intents(None, WantedIntents(resource="c-1"))


async def test_several_nodes_are_registered_together_or_not_at_all_and_the_invalid_one_is_named(
    db: pg.Database, pool: Pool
) -> None:
    requests = PostgresRequests(pool, db.dsn)
    good, bad = Registration(name="gpu-1"), Registration(name="gpu-2", site="no site")
    with pytest.raises(MalformedRequest, match=r"^gpu-2: parameter site 'no site'"):
        await requests.register([good, bad])
    assert await pool.fetchval("SELECT count(*) FROM farrier.nodes") == 0
    assert len(set(await requests.register([good, Registration(name="gpu-2")]))) == 2
