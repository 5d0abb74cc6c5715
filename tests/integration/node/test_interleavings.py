"""An intent that arrives at the worst moment is answered exactly once.

The tests make a run by hand, statement by statement, with a client's INSERT in between. A trigger counts the answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from farrier.config import ControllerConfig
from farrier.controller.outcome_validator import OutcomeValidator
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.connections.pool import Connection, Pool
from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.loop.outcome import Step
from farrier.model.loop.runs import CommitResult, CommitVerdict, Due, Finished, Loaded
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import Write
from tests.support import pg, tokens
from tests.support.fence import Fence, owned
from tests.support.nodes import HANDLER

TOKEN = tokens.named("token")

COUNT_ANSWERS = """
    CREATE TABLE farrier_test.answers (intent bigint NOT NULL);
    CREATE FUNCTION farrier_test.count_answer() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO farrier_test.answers VALUES (NEW.id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER count_answer AFTER UPDATE OF status ON farrier.intents
        FOR EACH ROW EXECUTE FUNCTION farrier_test.count_answer();
"""


class ByHand:
    """A loop over one node, driven statement by statement."""

    def __init__(self, pool: Pool, fence: Fence) -> None:
        self.io: PostgresStateIO[Node, Node, Write] = PostgresStateIO(pool, NodeRows())
        self._fence = fence
        self._validator: OutcomeValidator[Node, Node, Write] = OutcomeValidator(NODE_KIND, ControllerConfig())

    async def load(self) -> Loaded[Node]:
        return await self.io.load([1])

    def finish(self, loaded: Loaded[Node]) -> Finished[Node, Write]:
        decision = HANDLER.handle(loaded.resources[1], loaded.now)
        assert not isinstance(decision, Step)
        return self._validator.finish(self._fence.turn(1, loaded), loaded.resources[1], decision)

    async def commit(self, run: Finished[Node, Write]) -> CommitResult:
        return (await self.io.commit([run], self._fence.controller))[1]

    async def is_woken(self) -> bool:
        return (await self.io.listing([1])).ids.get(1, False)

    async def rest(self) -> None:
        """Make whole runs for as long as the node has a wake, or a run requires another at once."""
        again = True
        while again or await self.is_woken():
            run = self.finish(await self.load())
            assert (await self.commit(run)).verdict is CommitVerdict.COMMITTED
            again = run.due is Due.RERUN


@pytest.fixture
async def client(db: pg.Database) -> AsyncIterator[Connection]:
    async with db.connect() as conn:
        await conn.execute(COUNT_ANSWERS)
        await conn.execute(f"SELECT farrier.register_node('gpu-1', bootstrap_token => '{TOKEN}')")
        await conn.execute("SELECT farrier.enqueue('node', 1)")
        yield conn


@pytest.fixture
async def by_hand(db: pg.Database) -> AsyncIterator[ByHand]:
    async with db.pool(2) as pool:
        yield ByHand(pool, await owned(pool, "node"))


async def ask(client: Connection, action: str = "release") -> None:
    """Insert an intent that will be rejected, so that its answer is its only effect."""
    await client.execute("INSERT INTO farrier.intents (node, action) VALUES ('1', $1)", action)


async def answered(client: Connection) -> list[Any]:
    """How often each intent was answered."""
    rows = await client.fetch(
        "SELECT count(a.intent) AS times FROM farrier.intents i LEFT JOIN farrier_test.answers a ON a.intent = i.id"
        " GROUP BY i.id ORDER BY i.id"
    )
    return [row["times"] for row in rows]


async def test_an_intent_before_the_load_is_answered_once(client: Connection, by_hand: ByHand) -> None:
    await ask(client)
    assert (await by_hand.commit(by_hand.finish(await by_hand.load()))).verdict is CommitVerdict.COMMITTED
    assert not await by_hand.is_woken()
    assert await answered(client) == [1]


async def test_an_intent_between_load_and_commit_is_answered_once(client: Connection, by_hand: ByHand) -> None:
    run = by_hand.finish(await by_hand.load())
    await ask(client)
    assert (await by_hand.commit(run)).verdict is CommitVerdict.COMMITTED
    assert await by_hand.is_woken(), "the wake came after the load, so the commit keeps it"
    assert await answered(client) == [0]
    await by_hand.rest()
    assert await answered(client) == [1]


async def to_the_brink(client: Connection, by_hand: ByHand) -> Finished[Node, Write]:
    """Run the node until the next commit deletes it; returns that run."""
    await ask(client, "delete")
    while True:
        run = by_hand.finish(await by_hand.load())
        if run.to is not None and run.to.status == "deleted":
            return run
        await by_hand.commit(run)


async def test_an_intent_before_the_commit_that_deletes_the_node_is_answered_once(
    client: Connection, by_hand: ByHand
) -> None:
    run = await to_the_brink(client, by_hand)
    await ask(client)
    await by_hand.commit(run)
    await by_hand.rest()
    assert await answered(client) == [1, 1]
    reason = await client.fetchval("SELECT reason FROM farrier.intents WHERE id = 2")
    assert "this node is deleted" in reason
    assert not await by_hand.is_woken()


@pytest.mark.parametrize("is_over", [False, True], ids=["during", "after"])
async def test_an_intent_during_or_after_the_last_run_of_a_deleted_node_is_answered_once(
    client: Connection, by_hand: ByHand, db: pg.Database, is_over: bool
) -> None:
    """The intent was inserted before the node is deleted. Its wake causes one more run, which rejects it."""
    run = await to_the_brink(client, by_hand)
    async with db.connect() as slow:
        late = slow.transaction()
        await late.start()
        await ask(slow)
        await by_hand.commit(run)
        last = by_hand.finish(await by_hand.load())
        assert last.outcome == "deleted"
        if not is_over:
            await late.commit()
        await by_hand.commit(last)
        if is_over:
            assert not (await by_hand.io.listing([1])).ids, "no controller lists a deleted node"
            await late.commit()
    assert await by_hand.is_woken()
    await by_hand.rest()
    assert await answered(client) == [1, 1]
    assert await client.fetchval("SELECT status FROM farrier.intents WHERE id = 2") == "rejected"
    assert not (await by_hand.io.listing([1])).ids and not await by_hand.is_woken()


async def test_an_insert_for_a_deleted_node_is_refused(client: Connection, by_hand: ByHand) -> None:
    await by_hand.commit(await to_the_brink(client, by_hand))
    for node in ("1", "gpu-1"):
        with pytest.raises(pg.PostgresError) as refused:
            await client.execute("INSERT INTO farrier.intents (node, action) VALUES ($1, 'drain')", node)
        assert refused.value.sqlstate == "FR404"
