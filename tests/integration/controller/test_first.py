from __future__ import annotations

from datetime import datetime


from farrier.model.outcome import Transition
from tests.support import pg, toy
from tests.support.loop import opened


async def test_a_widget_is_made(db: pg.Database) -> None:
    def make(widget: toy.Widget, now: datetime) -> toy.Decided:
        if widget.state is toy.State.RAW:
            return Transition(to=toy.Shape(toy.State.MADE), reason="r", cause="c")
        return toy.content(widget, now)

    async with opened(db) as shop:
        await shop.register(1, 2, 3)
        async with shop.running(toy.Scripted(default=make)) as (_, ledger):
            await ledger.until(lambda: len(ledger.moves) == 3 and ledger.outcomes["do_nothing"] >= 3)
            await shop.ask(2)
            await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 4)
        assert await shop.history(1) == [("raw", "made")]
        assert await shop.answers() == [1]
        assert await shop.wakes(2) == 0
        rows = await shop.pool.fetch("SELECT * FROM farrier.controllers")
        assert rows == []
        owned = await shop.pool.fetchval("SELECT count(*) FROM farrier.shards WHERE owner IS NOT NULL")
        assert owned == 0
