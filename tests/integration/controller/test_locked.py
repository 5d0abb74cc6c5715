"""Rows that other transactions have locked: only their own resources wait, and one connection at most serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import anyio
import pytest
from typing_extensions import override

from farrier.model.loop.runs import CommitResult, CommitVerdict, Finished
from tests.support import toy
from tests.support.loop import PATIENCE, Shop, WidgetIO
from tests.support.toy import MADE, Answer, Scripted, Shape, State

LOCKED, FREE = range(1, 31), range(31, 61)


class Watched(WidgetIO):
    """Storage that counts the calls under way that repeat commits of locked runs."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self.known: set[int] = set()
        self.mixed = self.reported = 0
        self.at_once, self.most = 0, 0

    @override
    async def commit(self, runs: Sequence[Finished[Shape, Answer]], controller: UUID) -> Mapping[int, CommitResult]:
        ids = {run.id for run in runs}
        if not ids <= self.known:
            self.mixed += bool(ids & self.known)
            results = await super().commit(runs, controller)
            self.known |= {id_ for id_, result in results.items() if result.verdict is CommitVerdict.LOCKED}
            return results
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        results = await super().commit(runs, controller)
        self.at_once -= 1
        return results

    @override
    async def report_locked(
        self, runs: Sequence[Finished[Shape, Answer]], results: Mapping[int, CommitResult], controller: UUID
    ) -> Mapping[int, CommitResult]:
        reported = await super().report_locked(runs, results, controller)
        self.reported += len(runs)
        return reported


def makes(widget: toy.Widget, now: object) -> toy.Decided:
    return MADE if widget.state is State.RAW else toy.content(widget, now)  # type: ignore[arg-type] # not read


async def test_only_the_resources_with_locked_rows_wait_and_one_connection_serves_them(shop: Shop) -> None:
    await shop.register(*LOCKED, *FREE)
    io = Watched(shop)
    made = "SELECT count(*) FROM farrier_toy.widgets WHERE state = 'made'"
    async with shop.db.connect() as somebody:
        locking = somebody.transaction()
        await locking.start()
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id = ANY ($1) FOR UPDATE", [*LOCKED])
        async with shop.running(Scripted(default=makes), io=io) as (_, ledger):
            with anyio.fail_after(PATIENCE):
                while io.reported < len(LOCKED) or await shop.pool.fetchval(made) < len(FREE):
                    await anyio.lowlevel.checkpoint()
            assert {(await shop.outcome(id_))["error"] for id_ in LOCKED} == {"locked"}
            await locking.rollback()
            await ledger.until(lambda: len(ledger.moves) == len(LOCKED) + len(FREE))
    assert io.mixed == 0, "the commits of locked runs stay apart from others"
    assert io.most == 1


@pytest.mark.parametrize("may_read_stats", [False, True])
async def test_a_controllers_role_sees_who_holds_a_lock_and_only_with_a_grant_since_when(
    shop: Shop, may_read_stats: bool
) -> None:
    await shop.register(1)
    holders = "SELECT holder FROM farrier.lock_holders('widget', '{1}')"
    async with shop.db.connect() as somebody, shop.db.connect() as controller, somebody.transaction():
        await somebody.execute("SET LOCAL application_name = 'psql'")
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id = 1 FOR UPDATE")
        pid = await somebody.fetchval("SELECT pg_backend_pid()")
        await controller.execute("GRANT USAGE ON SCHEMA farrier_toy TO farrier_controller")
        await controller.execute("GRANT SELECT ON ALL TABLES IN SCHEMA farrier_toy TO farrier_controller")
        role = f"controller_{pid}"
        granted = ", pg_read_all_stats" if may_read_stats else ""
        await controller.execute(f"CREATE ROLE {role} IN ROLE farrier_controller{granted}; SET ROLE {role}")
        try:
            said = await controller.fetchval(holders)
        finally:
            await controller.execute(f"RESET ROLE; DROP ROLE {role}")
        began = await somebody.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')")
        since = f", in a transaction since {began} UTC" if may_read_stats else ""
        assert said == f"session {pid}, application psql{since}"
