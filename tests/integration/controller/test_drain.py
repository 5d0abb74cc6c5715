"""Stopping a controller: it begins no more runs, finishes or cuts running steps, gives all shards back, and logs these
phases in order."""

from __future__ import annotations

from datetime import timedelta

import anyio
import msgspec
from structlog.testing import capture_logs

from tests.support.loop import BRISK, Bench, Shop
from tests.support.toy import MADE, Scripted

OWNED = "SELECT count(*) FROM farrier.shards WHERE kind = 'widget' AND owner IS NOT NULL"
HASTY = msgspec.structs.replace(BRISK, drain_timeout=timedelta(milliseconds=50))


async def owners(shop: Shop) -> int:
    """The number of shards of widgets that have an owner."""
    count: int = await shop.pool.fetchval(OWNED)
    return count


async def until_one_is_owned(shop: Shop) -> None:
    """Return once the controller has given back all shards but the one in which a step is under way."""
    await shop.db.until(f"SELECT ({OWNED}) = 1")


async def test_a_step_that_runs_is_finished_and_committed_before_its_shard_is_given_back(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    with capture_logs() as logs:
        async with (
            anyio.create_task_group() as group,
            shop.running(Scripted(default=bench.script)) as (controller, ledger),
        ):
            await bench.begun.wait()

            async def let_go() -> None:
                await until_one_is_owned(shop)
                assert ledger.moves == []
                bench.let_go.set()

            group.start_soon(let_go)
    phases = [line["event"] for line in logs if line["event"].startswith(("drain", "state"))]
    assert phases == ["drain.begun", "state.moved", "drain.done"]
    assert ledger.moves == [("raw", "made")]
    assert controller.in_flight == 0
    assert await owners(shop) == 0
    assert await shop.marked(1) is None


async def test_a_step_that_does_not_end_is_cut_and_its_mark_stays_for_the_next_owner(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    with capture_logs() as logs:
        async with shop.running(Scripted(default=bench.script), config=HASTY) as (controller, ledger):
            await bench.begun.wait()
    assert [line["event"] for line in logs if line["event"].startswith("drain")] == [
        "drain.begun",
        "drain.cut_off",
        "drain.done",
    ]
    assert bench.cancelled == 1
    assert controller.in_flight == 0
    assert (ledger.outcomes.total(), ledger.errors, ledger.verdicts) == (0, [], [])
    assert await owners(shop) == 0
    assert await shop.marked(1) == "work"
    assert await shop.wakes(1) == 1


async def test_after_the_stop_no_run_begins(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    handler = Scripted({1: bench.script})
    async with anyio.create_task_group() as group, shop.running(handler) as (controller, _):
        await bench.begun.wait()

        async def ask_late() -> None:
            await until_one_is_owned(shop)
            await shop.register(2, 65)
            controller.woken("widget", [2, 65])
            controller.heard_nothing()
            bench.let_go.set()

        group.start_soon(ask_late)
    assert handler.order == [1]
    assert [await shop.wakes(id_) for id_ in (2, 65)] == [1, 1]
