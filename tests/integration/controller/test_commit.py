"""Commits: fenced by owner, epoch and version; each run of a batch is committed as a whole or not at all."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from farrier.io.calls.controllers import PostgresControllers
from farrier.model.loop.outcome import Deleted, DoNothing, Transition, Update, Wait
from farrier.model.loop.runs import CommitVerdict, Due, Settled
from tests.support import pg, proxy, toy
from tests.support.held import Held, hold, take
from tests.support.loop import Shop
from tests.support.owners import declared_dead
from tests.support.toy import MADE, Answer, Shape, State

POISON = Transition[Shape, Answer](to=Shape(State.MADE, "poison"), reason="it was raw", cause="timer")
CONTENT = DoNothing[Answer]()
# What a server does whose disk is full, at the first write.
FULL_DISK = """
    CREATE FUNCTION farrier_toy.extend_file() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE 'could not extend file "base/1/2": No space left on device'
              USING ERRCODE = 'disk_full', HINT = 'Check free disk space.';
    END $$;
    CREATE TRIGGER full_disk BEFORE UPDATE ON farrier_toy.widgets EXECUTE FUNCTION farrier_toy.extend_file();
"""


async def test_state_history_outcome_and_wakes_are_written_together(shop: Shop) -> None:
    held = await hold(shop, 1)
    assert await held.commit(held.finish(1, MADE)) == {1: CommitVerdict.COMMITTED}
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["version"]) == ("made", 2)
    assert await shop.history(1) == [("raw", "made")]
    assert (await shop.outcome(1))["reason"] == "it was raw"
    assert await shop.wakes(1) == 0


async def test_a_commit_deletes_the_wakes_that_its_snapshot_saw_and_no_other(shop: Shop) -> None:
    held = await hold(shop, 1)
    asked = await shop.ask(1)
    assert await held.commit(held.finish(1, MADE)) == {1: CommitVerdict.COMMITTED}
    assert await shop.wakes(1) == 1
    await held.reload()
    assert held.loaded.resources[1].requests == (asked,)
    assert await held.commit(held.finish(1, DoNothing(writes=(Answer(asked),)))) == {1: CommitVerdict.COMMITTED}
    assert await shop.wakes(1) == 0


async def test_a_version_conflict_rolls_back_state_history_and_writes_and_keeps_the_wakes(shop: Shop) -> None:
    held = await hold(shop, 1)
    request = await shop.ask(1)
    await held.reload()
    await shop.pool.execute("UPDATE farrier_toy.widgets SET version = 7 WHERE id = 1")
    run = held.finish(1, Transition(to=Shape(State.MADE), reason="r", cause="c", writes=(Answer(request),)))
    assert await held.commit(run) == {1: CommitVerdict.CONFLICT}
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["version"]) == ("raw", 7)
    assert await shop.history(1) == []
    assert await shop.answers() == [0]
    assert await shop.outcome(1) == {}
    assert await shop.wakes(1) == 2


async def test_a_version_conflict_affects_only_its_own_run(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    await shop.pool.execute("UPDATE farrier_toy.widgets SET version = 7 WHERE id = 2")
    verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in (1, 2, 3)))
    assert verdicts == {1: CommitVerdict.COMMITTED, 2: CommitVerdict.CONFLICT, 3: CommitVerdict.COMMITTED}


async def test_a_write_under_way_locks_its_run_only_and_then_is_a_conflict(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    runs = [held.finish(id_, MADE) for id_ in (1, 2, 3)]
    async with shop.db.connect() as somebody, somebody.transaction():
        await somebody.execute("UPDATE farrier_toy.widgets SET version = version + 1 WHERE id = 2")
        assert await held.commit(*runs) == {
            1: CommitVerdict.COMMITTED,
            2: CommitVerdict.LOCKED,
            3: CommitVerdict.COMMITTED,
        }
    assert await held.commit(runs[1]) == {2: CommitVerdict.CONFLICT}
    assert await shop.history(1) == [("raw", "made")]
    assert await shop.history(2) == []


async def test_a_run_of_a_former_owner_is_lost_and_writes_nothing(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    await declared_dead(shop.pool, held.owner)
    await take(shop)
    assert await held.commit(held.finish(1, MADE), held.finish(2, CONTENT)) == {
        1: CommitVerdict.LOST,
        2: CommitVerdict.LOST,
    }
    assert await held.mark(1) == frozenset()
    assert (await shop.widget(1))["state"] == "raw"
    assert (await shop.history(1), await shop.outcome(2)) == ([], {})
    assert [await shop.wakes(id_) for id_ in (1, 2)] == [1, 1]
    assert await shop.marked(1) is None


async def test_a_run_of_an_earlier_epoch_is_lost_though_the_owner_is_the_same(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    again = await PostgresControllers(shop.pool).take(held.owner, toy.KIND, [1])
    assert again == {1: held.epochs[1] + 1}
    verdicts = await held.commit(held.finish(1, MADE), held.finish(2, MADE))
    assert verdicts == {1: CommitVerdict.LOST, 2: CommitVerdict.COMMITTED}


async def test_a_takeover_skips_a_shard_with_an_open_commit_and_takes_it_later(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    async with shop.db.connect() as slow, slow.transaction():
        assert await slow.fetchval("SELECT farrier.hold_shards('widget', $1, '{1}', '{1}')", held.owner) == [1]
        await declared_dead(shop.pool, held.owner)
        owner, epochs = await take(shop)
        assert set(range(64)) - set(epochs) == {1}
    late = await PostgresControllers(shop.pool).take(owner, toy.KIND, [1])
    assert late == {1: held.epochs[1] + 1}


async def test_a_late_give_back_does_not_release_a_shard_that_its_owner_took_again(shop: Shop) -> None:
    held = await hold(shop)
    controllers = PostgresControllers(shop.pool)
    await controllers.take(held.owner, toy.KIND, [1])
    await controllers.give_back(held.owner, toy.KIND, {1: held.epochs[1], 2: held.epochs[2]})
    owned = await shop.pool.fetch("SELECT shard FROM farrier.shards WHERE kind = 'widget' AND owner IS NULL")
    assert [record["shard"] for record in owned] == [2]


async def test_only_the_invalid_run_of_a_batch_is_refused(shop: Shop) -> None:
    held = await hold(shop, *range(1, 21))
    runs = [held.finish(id_, POISON if id_ == 13 else MADE) for id_ in range(1, 21)]
    verdicts = await held.commit(*runs)
    assert verdicts.pop(13) is CommitVerdict.REFUSED
    assert set(verdicts.values()) == {CommitVerdict.COMMITTED}
    assert (await shop.widget(13))["state"] == "raw"
    assert await shop.history(13) == []
    told = await shop.outcome(13)
    assert (told["outcome"], told["error"]) == ("error", "refused_by_model")
    assert "widgets_payload_check" in told["reason"]
    assert await shop.wakes(13) == 0


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Wait[Answer](reason="a NUL: \0"), id="text that jsonb refuses"),
        pytest.param(Update[Shape, Answer](to=Shape(State.RAW, "\0"), reason="r"), id="text that text refuses"),
        pytest.param(DoNothing[Answer](writes=(Answer(2**70),)), id="a number the driver cannot send"),
        pytest.param(DoNothing[Answer](writes=("no write",)), id="a write of no type"),  # type: ignore[arg-type] # the point
    ],
)
async def test_an_outcome_that_cannot_be_stored_is_an_error_only_of_its_run(shop: Shop, outcome: object) -> None:
    held = await hold(shop, 1, 2, 3)
    verdicts = await held.commit(held.finish(1, MADE), held.finish(2, outcome), held.finish(3, CONTENT))
    assert verdicts == {1: CommitVerdict.COMMITTED, 2: CommitVerdict.REFUSED, 3: CommitVerdict.COMMITTED}
    assert (await shop.outcome(2))["error"] == "refused_by_model"
    assert await shop.wakes(2) == 0


async def test_a_deferred_refusal_refuses_the_run_before_the_commit(shop: Shop) -> None:
    """A deferred constraint fails at COMMIT; the run must still be refused, and not be taken for lost."""
    await shop.pool.execute("""
        CREATE FUNCTION farrier_toy.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'not for sale' USING ERRCODE = 'FR001'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON farrier_toy.widgets DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.payload = 'late') EXECUTE FUNCTION farrier_toy.refuse()
    """)
    held = await hold(shop, 1, 2)
    late = Update[Shape, Answer](to=Shape(State.RAW, "late"), reason="r")
    verdicts = await held.commit(held.finish(1, late), held.finish(2, MADE))
    assert verdicts == {1: CommitVerdict.REFUSED, 2: CommitVerdict.COMMITTED}
    assert "not for sale" in (await shop.outcome(1))["reason"]


async def test_runs_with_a_locked_shard_are_locked_until_it_is_free(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    runs = [held.finish(1, MADE), held.finish(2, CONTENT)]
    async with shop.db.connect() as client:
        async with client.transaction():
            await client.execute("SELECT FROM farrier.shards WHERE kind = 'widget' FOR UPDATE")
            assert await held.commit(*runs) == {1: CommitVerdict.LOCKED, 2: CommitVerdict.LOCKED}
        assert await held.commit(*runs) == {1: CommitVerdict.COMMITTED, 2: CommitVerdict.COMMITTED}


async def test_an_update_keeps_the_clock_writes_no_history_and_does_not_run_again(shop: Shop) -> None:
    held = await hold(shop, 1)
    before = await shop.widget(1)
    await shop.db.advance(timedelta(seconds=1))
    run = held.finish(1, Update[Shape, Answer](to=Shape(State.RAW, "later"), reason="a new deadline"))
    assert await held.commit(run) == {1: CommitVerdict.COMMITTED}
    after = await shop.widget(1)
    assert (after["payload"], after["version"], after["entered_at"]) == ("later", 2, before["entered_at"])
    assert await shop.history(1) == []
    assert run.due is Due.PERIODIC


async def test_an_outcome_is_written_only_when_it_changed(shop: Shop) -> None:
    waiting = Wait[Answer](reason="for Godot")
    held = await hold(shop, 1)
    await held.commit(held.finish(1, waiting))
    written = await shop.pool.fetchval("SELECT at FROM farrier.outcomes")
    await shop.db.advance(timedelta(minutes=1))
    await held.reload()
    run = held.finish(1, waiting)
    assert run.rests
    await held.commit(run)
    assert await shop.pool.fetchval("SELECT at FROM farrier.outcomes") == written


async def test_a_wake_of_an_ended_resource_is_refused(shop: Shop) -> None:
    held = await hold(shop, 1)
    assert await held.commit(held.finish(1, Deleted[Answer]())) == {1: CommitVerdict.COMMITTED}
    await shop.pool.execute("UPDATE farrier_toy.widgets SET ended_at = farrier.now()")
    with pytest.raises(asyncpg.PostgresError, match="no widget has ID 1"):
        await shop.ask(1)


async def test_a_wake_before_the_deletion_s_commit_keeps_the_resource_listed_for_one_more_run(shop: Shop) -> None:
    held = await hold(shop, 1)
    await shop.ask(1)
    assert await held.commit(held.finish(1, Deleted())) == {1: CommitVerdict.COMMITTED}
    await shop.pool.execute("UPDATE farrier_toy.widgets SET ended_at = farrier.now()")
    assert (await held.io.listing([1])).ids == {1: True}


async def test_a_commit_with_a_lost_reply_is_found_and_not_repeated(shop: Shop) -> None:
    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        held = await hold(shop, 1, 2, io=shop.io(pool=pool))
        moves = held.finish(1, MADE)
        stays = held.finish(2, Update(to=Shape(State.RAW, "later"), reason="a new deadline"))
        between.cut_after(b"it was raw")
        assert await held.commit(moves, stays) == {1: CommitVerdict.UNKNOWN, 2: CommitVerdict.UNKNOWN}
        assert between.cuts == 1
        found = await held.io.settle([moves, stays])
        assert found[1].happened and found[2].happened
        assert found[1].at is not None and found[2].at is None
        assert await held.commit(moves, stays) == {1: CommitVerdict.CONFLICT, 2: CommitVerdict.CONFLICT}
    assert (await shop.widget(1))["state"] == "made"
    assert await shop.history(1) == [("raw", "made")]


async def test_the_log_has_the_reason_why_the_server_could_not_commit(shop: Shop) -> None:
    await shop.pool.execute(FULL_DISK)
    held = await hold(shop, 1)
    result = (await held.io.commit([held.finish(1, MADE)], held.owner))[1]
    assert result.verdict is CommitVerdict.UNKNOWN
    assert "No space left on device (Check free disk space.)" in str(result.error)


async def test_a_commit_that_was_settled_before_it_arrived_can_never_happen(shop: Shop) -> None:
    held = await hold(shop, 1)
    late = held.finish(1, MADE)
    assert await held.io.settle([late]) == {1: Settled(happened=False)}
    assert await held.commit(late) == {1: CommitVerdict.CONFLICT}
    assert (await shop.widget(1))["state"] == "raw"


async def test_an_open_commit_is_not_settled_and_the_others_are(shop: Shop) -> None:
    held = await hold(shop, 1, 2)
    runs = [held.finish(1, MADE), held.finish(2, MADE)]
    async with shop.db.connect() as slow:
        async with slow.transaction():
            await slow.execute(
                "UPDATE farrier_toy.widgets SET version = 2, commit_id = $1 WHERE id = 1", runs[0].commit_id
            )
            assert await held.io.settle(runs) == {2: Settled(happened=False)}
        assert (await held.io.settle(runs[:1]))[1].happened


async def test_a_commit_of_the_next_owner_is_not_taken_for_the_unknown_commit_of_the_former(shop: Shop) -> None:
    former = await hold(shop, 1)
    lost = former.finish(1, MADE)
    await declared_dead(shop.pool, former.owner)
    owner, epochs = await take(shop)
    heir = Held(former.io, owner, epochs, await former.io.load([1]))
    same = heir.finish(1, MADE)
    assert await heir.commit(same) == {1: CommitVerdict.COMMITTED}
    assert not (await former.io.settle([lost]))[1].happened, "only the heir's run was committed"
    assert (await heir.io.settle([same]))[1].happened


async def test_a_commit_is_found_although_a_function_changed_the_resource_since(shop: Shop) -> None:
    held = await hold(shop, 1)
    run = held.finish(1, MADE)
    await held.commit(run)
    await shop.pool.execute("UPDATE farrier_toy.widgets SET version = version + 1")
    assert (await held.io.settle([run]))[1].happened


@pytest.mark.parametrize("happened", [False, True])
async def test_settling_a_commit_twice_has_the_same_result(shop: Shop, *, happened: bool) -> None:
    """Settling has to be idempotent, because the first reply may be lost."""
    held = await hold(shop, 1)
    run = held.finish(1, MADE)
    if happened:
        await held.commit(run)
    first = await held.io.settle([run])
    assert await held.io.settle([run]) == first
    assert first[1].happened is happened
    assert await held.commit(run) == {1: CommitVerdict.CONFLICT}


async def test_one_transaction_commits_all_runs_but_those_with_locked_rows(shop: Shop) -> None:
    widgets = range(1, 201)
    held = await hold(shop, *widgets)
    async with shop.db.connect() as somebody, somebody.transaction():
        await somebody.execute("SELECT FROM farrier_toy.widgets WHERE id % 2 = 0 FOR UPDATE")
        verdicts = await held.commit(*(held.finish(id_, MADE) for id_ in widgets))
    assert verdicts == {id_: CommitVerdict.COMMITTED if id_ % 2 else CommitVerdict.LOCKED for id_ in widgets}
    written = await shop.pool.fetch("SELECT DISTINCT xmin::text FROM farrier_toy.widgets WHERE state = 'made'")
    assert len(written) == 1
    assert [await shop.wakes(id_) for id_ in (1, 2)] == [0, 1]


async def test_a_run_with_other_locked_rows_is_separated_from_the_others(shop: Shop) -> None:
    """The writer does not skip these rows."""
    held = await hold(shop, 1, 2, 3)
    request = await shop.ask(2)
    await held.reload()
    runs = [held.finish(1, MADE), held.finish(2, DoNothing(writes=(Answer(request),))), held.finish(3, MADE)]
    async with shop.db.connect() as somebody, somebody.transaction():
        await somebody.execute("SELECT FROM farrier_toy.requests FOR UPDATE")
        verdicts = await held.commit(*runs)
    assert verdicts == {1: CommitVerdict.COMMITTED, 2: CommitVerdict.LOCKED, 3: CommitVerdict.COMMITTED}


async def test_the_outcome_of_a_locked_run_names_the_session_that_holds_the_lock(shop: Shop) -> None:
    held = await hold(shop, 1)
    run = held.finish(1, MADE)
    async with shop.db.connect() as client, client.transaction():
        await client.execute("SET LOCAL application_name = 'psql of an operator'")
        await client.execute("SELECT FROM farrier_toy.widgets WHERE id = 1 FOR UPDATE")
        session = await client.fetchrow(
            "SELECT pg_backend_pid() AS pid, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') AS since"
        )
        assert session is not None
        results = await held.io.commit([run], held.owner)
        await held.io.report_locked([run], results, held.owner)
        told = await shop.outcome(1)
    pid, since = session
    holder = f"session {pid}, application psql of an operator, in a transaction since {since} UTC"
    assert told["error"] == "locked"
    assert holder in told["reason"]
    assert await shop.history(1) == []
    assert await shop.wakes(1) == 1
    assert await held.commit(run) == {1: CommitVerdict.COMMITTED}
    assert "error" not in await shop.outcome(1)


async def test_a_lock_of_several_sessions_names_them(shop: Shop) -> None:
    locking = "SELECT pg_backend_pid() FROM farrier_toy.widgets WHERE id = 1 FOR SHARE"
    held = await hold(shop, 1)
    run = held.finish(1, MADE)
    async with shop.db.connect() as one, shop.db.connect() as two, one.transaction(), two.transaction():
        pids = [await each.fetchval(locking) for each in (one, two)]
        results = await held.io.report_locked([run], await held.io.commit([run], held.owner), held.owner)
    assert all(f"session {pid}" in str(results[1].error) for pid in pids)


async def test_an_error_of_each_run_is_recorded_once_with_its_first_time(shop: Shop) -> None:
    recorded = "SELECT at, xmin::text FROM farrier.outcomes WHERE id = $1"
    held = await hold(shop, 1)
    run = held.finish(1, MADE)
    async with shop.db.connect() as client, client.transaction():
        await client.execute("SELECT FROM farrier_toy.widgets WHERE id = 1 FOR UPDATE")
        results = await held.io.commit([run], held.owner)
        await held.io.report_locked([run], results, held.owner)
        first = await shop.pool.fetchrow(recorded, 1)
        await shop.db.advance(timedelta(minutes=3))
        await held.io.report_locked([run], results, held.owner)
    assert await shop.pool.fetchrow(recorded, 1) == first


async def test_a_row_whose_load_fails_is_unreadable_and_the_others_are_read(shop: Shop) -> None:
    """PostgreSQL, and not the decoder, raises the error, because the query itself fails on this row."""
    rows = toy.WidgetRows()
    rows.load = rows.load.replace("w.payload", "(1 / (w.id - 3))::text")
    await shop.register(*range(1, 11))
    loaded = await shop.io(rows=rows).load(range(1, 11))
    assert list(loaded.unreadable) == [3]
    assert "division by zero" in str(loaded.unreadable[3])
    assert len(loaded.resources) + len(loaded.unreadable) == 10
