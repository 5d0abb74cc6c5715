"""An update that only confirms stays in memory: it is not committed, and is applied to each later snapshot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from typing_extensions import override

from farrier.model.loop.outcome import Update, Wait
from tests.integration.controller.test_snapshots import A_PERIOD, NEVER_AGAIN, Counting
from tests.support.loop import Shop
from tests.support.replica import Replica, at_work
from tests.support.toy import Decided, Scripted, Widget


class Confirming(Scripted):
    """Confirms a widget by setting its payload, and rests once that is set. `also` are other fields of its update."""

    def __init__(self, *, raises: bool = False, also: dict[str, Any] | None = None) -> None:
        super().__init__(default=self._confirm)
        self._raises = raises
        self._also = also or {}

    def _confirm(self, widget: Widget, _now: datetime) -> Decided:
        if widget.payload == "confirmed":
            return Wait(reason="for Godot", rests=True, source="here:1")
        to: Any = msgspec.structs.replace(widget, payload="confirmed")
        return Update(to=to, reason="as it was", **{"quiet": True, "confirms": True} | self._also)

    @override
    def confirmed(self, stored: Widget, remembered: Widget, now: datetime) -> Widget:
        if self._raises:
            raise RuntimeError("on purpose")
        return msgspec.structs.replace(stored, payload=remembered.payload)


async def test_a_confirming_update_is_not_committed_and_its_wakes_are_deleted(shop: Shop) -> None:
    await shop.register(1)
    io = Counting(shop)
    replica = Replica(shop, Confirming(), io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 1)
        await shop.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes)")
        stored = await shop.widget(1)
        assert (stored["version"], stored["payload"]) == (1, "")
        assert await shop.outcome(1) == {}
        assert "commit" not in io.statements


async def test_a_confirmed_value_is_applied_to_each_later_snapshot(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, Confirming(), config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 1)
        for loads in (1, 2, 3):
            replica.controller.woken("widget", [1])
            await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == loads)  # noqa: B023
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 4)
        assert replica.ledger.outcomes["update"] == 1
        assert (await shop.widget(1))["payload"] == ""


async def test_if_a_confirmed_value_cannot_be_applied_the_run_uses_the_stored_snapshot(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, Confirming(raises=True), config=NEVER_AGAIN)
    async with at_work(replica):
        for runs in (1, 2, 3):
            await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == runs)  # noqa: B023
            replica.controller.woken("widget", [1])
        assert replica.ledger.errors == []


async def test_an_update_with_other_changes_is_committed_with_its_confirmed_values(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, Confirming(also={"quiet": False}), config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 1)
        assert (await shop.widget(1))["payload"] == "confirmed"
        assert (await shop.outcome(1))["reason"] == "as it was"
