"""Time in a state: from commit to commit, by the database's clock."""

from __future__ import annotations

from datetime import timedelta

from farrier.model.loop.outcome import Transition
from tests.support.loop import Bench, Shop
from tests.support.toy import Scripted, Shape, State

STEP = timedelta(seconds=8)


async def test_the_time_in_a_state_includes_the_step_that_ended_it(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(Transition(to=Shape(State.MADE), reason="it was raw", cause="timer"))
    async with shop.running(Scripted(default=bench.script)) as (_, ledger):
        await bench.begun.wait()
        entered = (await shop.widget(1))["entered_at"]
        await shop.db.advance(STEP)
        bench.let_go.set()
        await ledger.until(lambda: bool(ledger.moves))
    (record,) = await shop.pool.fetch("SELECT * FROM farrier.history WHERE kind = 'widget' AND from_value IS NOT NULL")
    whole = (record["at"] - entered).total_seconds()
    assert whole >= STEP.total_seconds()
    assert record["seconds_in_source"] == whole
    assert ledger.seconds_in_source == [whole]
