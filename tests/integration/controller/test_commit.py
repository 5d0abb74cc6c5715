"""Committing: fenced by token and version, whole or not at all, each run for itself."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import anyio
import asyncpg
import pytest

from farrier.io.commit import WITHIN
from farrier.model.outcome import Deleted, DoNothing, Transition, Update, Wait
from farrier.model.runs import Lane, Verdict
from tests.support import pg, proxy, toy
from tests.support.held import Held, hold
from tests.support.loop import BRISK, Shop
from tests.support.toy import Answer, Shape, State

SECOND = timedelta(seconds=1)
LEASE = BRISK.lease

MADE = Transition[Shape, Answer](to=Shape(State.MADE), reason="it was raw", cause="timer")
POISON = Transition[Shape, Answer](to=Shape(State.MADE, "poison"), reason="it was raw", cause="timer")
CONTENT = DoNothing[Answer]()


async def test_state_history_outcome_and_schedule_are_written_together(shop: Shop) -> None:
    held = await hold(shop, 1)
    assert await held.commit(held.finish(1, MADE)) == {1: Verdict.COMMITTED}
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["version"]) == ("made", 2)
    assert await shop.history(1) == [("raw", "made")]
    assert (await shop.outcome(1))["reason"] == "it was raw"
    row = await shop.row(1)
    assert (row["claim_token"], row["owner"], row["lane"], row["reruns"]) == (None, None, Lane.WOKEN, 1)


async def test_a_version_conflict_rolls_back_state_history_and_writes_and_the_row_is_due(shop: Shop) -> None:
    await shop.register(1)
    request = await shop.ask(1)
    io = shop.io()
    claim = await io.claim(Lane.WOKEN, 10, None)
    held = Held(io, claim, dict((await io.load([1])).resources))
    await shop.pool.execute("UPDATE farrier_toy.widgets SET version = 7 WHERE id = 1")
    run = held.finish(1, Transition(to=Shape(State.MADE), reason="r", cause="c", writes=(Answer(request),)))
    assert await held.commit(run) == {1: Verdict.CONFLICT}
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["version"]) == ("raw", 7)
    assert await shop.history(1) == []
    assert await shop.answers() == [0]
    assert await shop.outcome(1) == {}
    row = await shop.row(1)
    assert (row["claim_token"], row["lane"]) == (None, Lane.WOKEN)
    assert row["ahead"] <= timedelta(0)


async def test_a_conflict_costs_only_the_run_that_has_it(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    await shop.pool.execute("UPDATE farrier_toy.widgets SET version = 7 WHERE id = 2")
    verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in (1, 2, 3)))
    assert verdicts == {1: Verdict.COMMITTED, 2: Verdict.CONFLICT, 3: Verdict.COMMITTED}


async def test_a_write_between_our_look_at_the_version_and_our_own_is_a_conflict_of_that_run_alone(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    verdicts: dict[int, Verdict] = {}

    async def commit() -> None:
        verdicts.update(await held.commit(*(held.finish(id_, MADE) for id_ in (1, 2, 3))))

    async with shop.db.connect() as somebody, anyio.create_task_group() as group:
        racing = somebody.transaction()
        await racing.start()
        await somebody.execute("UPDATE farrier_toy.widgets SET version = version + 1 WHERE id = 2")
        group.start_soon(commit)
        await shop.until_blocked()
        await racing.commit()
    assert verdicts == {1: Verdict.COMMITTED, 2: Verdict.CONFLICT, 3: Verdict.COMMITTED}
    assert await shop.history(1) == [("raw", "made")]
    assert await shop.history(2) == []


async def test_a_run_whose_claim_was_taken_over_leaves_the_new_owner_s_lease_untouched(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    await shop.db.advance(LEASE + SECOND)
    taken = await shop.io().claim(Lane.WOKEN, 10, None)
    assert [row.id for row in taken.rows] == [1, 2]
    before = [await shop.row(id_) for id_ in (1, 2)]
    assert await held.commit(held.finish(1, MADE), held.finish(2, CONTENT)) == {
        1: Verdict.LOST,
        2: Verdict.LOST,
    }
    await held.io.give_back({1: held.claim.token}, timedelta(0), Lane.WOKEN)
    assert await held.io.renew({1: held.claim.token}) == frozenset()
    after = [await shop.row(id_) for id_ in (1, 2)]
    for column in ("claim_token", "owner", "due_at", "lane", "claimed_wake_seq", "outcome_key"):
        assert [row[column] for row in after] == [row[column] for row in before]
    assert (await shop.widget(1))["state"] == "raw"


async def test_of_a_batch_only_the_poisoned_run_is_refused(shop: Shop) -> None:
    held = await hold(shop, *range(1, 21))
    runs = [held.finish(id_, POISON if id_ == 13 else MADE) for id_ in range(1, 21)]
    verdicts = await held.commit(*runs)
    assert verdicts.pop(13) is Verdict.REFUSED
    assert set(verdicts.values()) == {Verdict.COMMITTED}
    assert (await shop.widget(13))["state"] == "raw"
    assert await shop.history(13) == []
    told = await shop.outcome(13)
    assert (told["outcome"], told["error"]) == ("error", "refused_by_model")
    assert "widgets_payload_check" in told["reason"]
    row = await shop.row(13)
    assert (row["claim_token"], row["lane"]) == (None, Lane.PERIODIC)


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Wait[Answer](reason="a NUL: \0"), id="text that jsonb refuses"),
        pytest.param(Update[Shape, Answer](to=Shape(State.RAW, "\0"), reason="r"), id="text that text refuses"),
        pytest.param(DoNothing[Answer](writes=(Answer(2**70),)), id="a number the driver cannot send"),
        pytest.param(DoNothing[Answer](writes=("no write",)), id="a write of no type"),  # type: ignore[arg-type] # the point
    ],
)
async def test_what_cannot_be_stored_is_that_run_s_outcome_and_the_others_go_on(shop: Shop, outcome: object) -> None:
    held = await hold(shop, 1, 2, 3)
    verdicts = await held.commit(held.finish(1, MADE), held.finish(2, outcome), held.finish(3, CONTENT))
    assert verdicts == {1: Verdict.COMMITTED, 2: Verdict.REFUSED, 3: Verdict.COMMITTED}
    assert (await shop.outcome(2))["error"] == "refused_by_model"
    assert (await shop.row(2))["claim_token"] is None


async def test_an_edge_that_the_database_refuses_at_commit_is_refused_before_it(shop: Shop) -> None:
    """A deferred constraint speaks up at COMMIT; it must still be an answer and not a lost one."""
    await shop.pool.execute("""
        CREATE FUNCTION farrier_toy.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'not for sale' USING ERRCODE = 'FR001'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON farrier_toy.widgets DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.payload = 'late') EXECUTE FUNCTION farrier_toy.refuse()
    """)
    held = await hold(shop, 1, 2)
    late = Update[Shape, Answer](to=Shape(State.RAW, "late"), reason="r")
    verdicts = await held.commit(held.finish(1, late), held.finish(2, MADE))
    assert verdicts == {1: Verdict.REFUSED, 2: Verdict.COMMITTED}
    assert "not for sale" in (await shop.outcome(1))["reason"]


async def test_a_row_that_somebody_has_locked_is_left_for_last_and_then_waited_for(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    runs = [held.finish(1, MADE), held.finish(2, CONTENT)]
    async with shop.db.connect() as client:
        async with client.transaction():
            await client.execute("SELECT FROM farrier.schedule WHERE id IN (1, 2) FOR UPDATE")
            assert await held.commit(*runs) == {1: Verdict.LOCKED, 2: Verdict.LOCKED}
            assert await held.commit(runs[0], patient=True) == {1: Verdict.UNKNOWN}
        for run in runs:
            assert await held.commit(run, patient=True) == {run.id: Verdict.COMMITTED}


async def test_an_update_keeps_the_clock_writes_no_history_and_does_not_run_again(shop: Shop) -> None:
    held = await hold(shop, 1)
    before = await shop.widget(1)
    await shop.db.advance(SECOND)
    run = held.finish(1, Update[Shape, Answer](to=Shape(State.RAW, "later"), reason="a new deadline"))
    assert await held.commit(run) == {1: Verdict.COMMITTED}
    after = await shop.widget(1)
    assert (after["payload"], after["version"], after["entered_at"]) == ("later", 2, before["entered_at"])
    assert await shop.history(1) == []
    row = await shop.row(1)
    assert row["lane"] == Lane.PERIODIC
    assert row["ahead"] > 20 * SECOND


async def test_an_outcome_is_written_only_when_it_changed(shop: Shop) -> None:
    waiting = Wait[Answer](reason="for Godot")
    held = await hold(shop, 1)
    await held.commit(held.finish(1, waiting))
    written = await shop.pool.fetchval("SELECT at FROM farrier.outcomes")
    await shop.db.advance(60 * SECOND)
    held = await hold(shop)
    run = held.finish(1, waiting)
    assert run.idle
    await held.commit(run)
    assert await shop.pool.fetchval("SELECT at FROM farrier.outcomes") == written


async def test_an_idle_run_whose_words_the_database_refuses_keeps_nobody_else_from_being_given_back(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    refused, content = held.finish(1, Wait(reason="no \0 in text")), held.finish(2, Wait(reason="for Godot"))
    assert refused.idle and content.idle
    assert await held.commit(refused, content) == {1: Verdict.REFUSED, 2: Verdict.COMMITTED}
    assert (await shop.outcome(1))["outcome"] == "error"
    assert (await shop.outcome(2))["reason"] == "for Godot"


async def test_a_deleted_resource_leaves_the_schedule_and_later_wakes_are_refused(shop: Shop) -> None:
    held = await hold(shop, 1)
    assert await held.commit(held.finish(1, Deleted[Answer]())) == {1: Verdict.COMMITTED}
    assert await shop.row(1) is None
    with pytest.raises(asyncpg.PostgresError, match="no widget with id 1 is scheduled"):
        await shop.ask(1)


async def test_a_wake_before_the_deletion_s_commit_keeps_the_row_for_one_more_run(shop: Shop) -> None:
    held = await hold(shop, 1)
    await shop.ask(1)
    (result,) = (await held.io.commit([held.finish(1, Deleted())])).values()
    assert (result.verdict, result.again) == (Verdict.COMMITTED, True)
    row = await shop.row(1)
    assert (row["claim_token"], row["lane"]) == (None, Lane.WOKEN)


async def test_a_commit_whose_reply_is_lost_is_found_and_not_repeated(shop: Shop) -> None:
    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        held = await hold(shop, 1, 2, io=shop.io(pool=pool))
        moves = held.finish(1, MADE)
        stays = held.finish(2, Update(to=Shape(State.RAW, "later"), reason="a new deadline"))
        between.cut_after(b"it was raw")
        assert await held.commit(moves, stays) == {1: Verdict.COMMITTED, 2: Verdict.UNKNOWN}
        assert between.cuts == 1
        assert await held.commit(moves) == {1: Verdict.LOST}
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["version"]) == ("made", 2)
    assert await shop.history(1) == [("raw", "made")]


async def test_a_commit_that_never_arrived_is_unknown_and_runs_again_when_its_lease_ends(shop: Shop) -> None:
    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        held = await hold(shop, 1, io=shop.io(pool=pool))
        between.cut_after(b"farrier.commit_runs")
        assert await held.commit(held.finish(1, MADE)) == {1: Verdict.UNKNOWN}
    assert (await shop.widget(1))["state"] == "raw"
    await shop.db.advance(LEASE + SECOND)
    assert [row.id for row in (await shop.io().claim(Lane.WOKEN, 10, None)).rows] == [1]


async def test_a_run_whose_writes_somebody_holds_is_left_for_last_and_then_waited_for(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    async with shop.db.connect() as somebody, anyio.create_task_group() as group:
        holding = somebody.transaction()
        await holding.start()
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id = 2 FOR UPDATE")
        verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in (1, 2, 3)))
        assert verdicts == {1: Verdict.COMMITTED, 2: Verdict.LOCKED, 3: Verdict.COMMITTED}

        async def wait_for_it() -> None:
            verdicts.update(await held.commit(held.finish(2, MADE), patient=True))

        group.start_soon(wait_for_it)
        await shop.until_blocked()
        await holding.commit()
    assert verdicts[2] is Verdict.COMMITTED


async def test_a_run_that_is_held_up_for_longer_than_a_second_is_left_to_its_lease(shop: Shop) -> None:
    held = await hold(shop, 1)
    async with shop.db.connect() as somebody, somebody.transaction():
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id = 1 FOR UPDATE")
        assert await held.commit(held.finish(1, MADE), patient=True) == {1: Verdict.UNKNOWN}
    assert await shop.history(1) == []


async def test_one_run_of_hundreds_whose_writes_somebody_holds_costs_the_others_less_than_their_time(
    shop: Shop,
) -> None:
    """Halved nine times, with a second's wait for each, it outlasts what a commit may take."""
    widgets = range(1, 501)
    held = await hold(shop, *widgets)
    async with shop.db.connect() as somebody, somebody.transaction():
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id = 250 FOR UPDATE")
        with anyio.fail_after(WITHIN.total_seconds()):
            verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in widgets))
    assert Counter(verdicts.values()) == {Verdict.COMMITTED: 499, Verdict.LOCKED: 1}


async def test_what_was_committed_when_the_time_ran_out_is_told(shop: Shop) -> None:
    """Refused together, for what is of the moment; then one half is written, and the other hangs."""
    await shop.pool.execute("""
        CREATE SEQUENCE farrier_toy.tries;
        CREATE FUNCTION farrier_toy.hang() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE try bigint := nextval('farrier_toy.tries');
        BEGIN
            IF try <= 2 THEN RAISE EXCEPTION 'somebody was faster' USING ERRCODE = '40001'; END IF;
            IF try > 3 THEN PERFORM pg_sleep(3600); END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER hang BEFORE UPDATE ON farrier_toy.widgets EXECUTE FUNCTION farrier_toy.hang();
    """)
    held = await hold(shop, 1, 2, 3, 4, io=shop.io(commit_within=2 * SECOND))
    with anyio.fail_after(WITHIN.total_seconds()):
        verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in (1, 2, 3, 4)))
    assert verdicts == {1: Verdict.COMMITTED, 2: Verdict.COMMITTED, 3: Verdict.UNKNOWN, 4: Verdict.UNKNOWN}
    assert await shop.history(2) == [("raw", "made")]


async def test_a_row_whose_load_fails_is_unreadable_and_the_others_are_read(shop: Shop) -> None:
    """The query itself fails on what is stored: not a decoder's error but PostgreSQL's."""
    rows = toy.WidgetRows()
    rows.load = rows.load.replace("w.payload", "(1 / (w.id - 3))::text")
    await shop.register(*range(1, 11))
    loaded = await shop.io(rows=rows).load(range(1, 11))
    assert list(loaded.unreadable) == [3]
    assert "division by zero" in str(loaded.unreadable[3])
    assert len(loaded.resources) + len(loaded.unreadable) == 10


async def test_a_row_that_a_wake_has_just_locked_is_given_back_all_the_same(shop: Shop) -> None:
    """Passed over, it would stay claimed, and the wake unanswered, until the lease ends."""
    held = await hold(shop, 1, 2)
    async with shop.db.connect() as client, anyio.create_task_group() as group:
        waking = client.transaction()
        await waking.start()
        await toy.ask(client, 1)
        await client.execute("SET CONSTRAINTS ALL IMMEDIATE")
        tokens = dict.fromkeys((1, 2), held.claim.token)
        group.start_soon(held.io.give_back, tokens, 30 * SECOND, Lane.PERIODIC)
        await shop.until_blocked()
        await waking.commit()
    woken, other = await shop.row(1), await shop.row(2)
    assert (woken["claim_token"], woken["lane"]) == (None, Lane.WOKEN)
    assert woken["ahead"] <= timedelta(0)
    assert (other["claim_token"], other["lane"]) == (None, Lane.PERIODIC)
