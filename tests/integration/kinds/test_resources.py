"""The functions that every kind has without more code: guards, wakes, snapshots, commits, listings and removal."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.errors import RefusedByModel, UndecodableState
from farrier.io.kinds.rows import ResourceRows
from farrier.library import open_enqueuer
from farrier.model.kinds.resource import Answer
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.outcome import Record
from farrier.model.loop.runs import CommitVerdict, Due, Finished, Loaded, Move
from tests.support import crates, pg
from tests.support import fence as fences
from tests.support.crates import Crate, Yard

PERIODIC = timedelta(seconds=30)


prepared, yard = crates.prepared, crates.yard


async def write(yard: Yard, **sections: list[dict[str, Any]]) -> list[tuple[int, timedelta]]:
    ids = [run["run"] for run in sections["runs"]]
    changes = {"kind": [{"run": id_, "kind": "crate"} for id_ in ids], **sections}
    return [
        tuple(r) for r in await yard.pool.fetch("SELECT * FROM farrier.write_resources($1::jsonb)", json.dumps(changes))
    ]


# --- guards, for every writer


@pytest.mark.parametrize("target", ["emptying/unpack", "gone", "lost"])
async def test_a_move_that_the_model_lacks_is_refused(yard: Yard, target: str) -> None:
    made = await yard.create()
    with pytest.raises(pg.PostgresError, match=f"crate c-1: the model has no edge packing -> {target}") as refused:
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1 WHERE id = $2", target, made)
    assert refused.value.sqlstate == "FR409"


async def test_a_resource_can_only_begin_in_its_kinds_initial_state(yard: Yard) -> None:
    with pytest.raises(pg.PostgresError, match="a new crate cannot have the state packed") as refused:
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, state) VALUES ('c-1', 'packed')")
    assert refused.value.sqlstate == "FR409"
    await yard.pool.execute("INSERT INTO farrier_crates.crates (name, state) VALUES ('c-1', 'packing')")


async def test_a_clock_starts_with_each_move_and_not_with_other_changes(yard: Yard) -> None:
    made = await yard.create()
    began = (await yard.crate(made))["state_entered_at"]
    await yard.db.advance(timedelta(minutes=1))
    await yard.pool.execute("UPDATE farrier_crates.crates SET labels = '{a}'")
    assert (await yard.crate(made))["state_entered_at"] == began
    await yard.pool.execute("UPDATE farrier_crates.crates SET state = 'packed'")
    assert (await yard.crate(made))["state_entered_at"] - began >= timedelta(minutes=1)


# --- snapshots


async def test_a_snapshot_has_the_row_and_the_requests_that_wait_oldest_first(yard: Yard) -> None:
    made = await yard.create()
    asked = [await yard.ask("update", "c-1", '{"labels": ["a"]}'), await yard.ask("delete")]
    loaded = await yard.io().load([made])
    crate = loaded.resources[made]
    assert (crate.name, crate.state, crate.size, crate.labels, crate.slot) == ("c-1", "packing", 3, (), 1)
    assert [(request.id, request.action) for request in crate.requests] == list(
        zip(asked, ("update", "delete"), strict=True)
    )
    assert crate.requests[0].params == {"labels": ["a"]}


async def test_an_interval_column_is_read_and_written_as_a_timedelta(yard: Yard) -> None:
    await yard.pool.execute("ALTER TABLE farrier_crates.crates ADD keep interval NOT NULL DEFAULT '1 day 90 minutes'")
    made = await yard.create()
    rows: ResourceRows[KeptCrate, Answer] = ResourceRows(crates.SPEC, KeptCrate, columns=("keep",))
    (record,) = await yard.pool.fetch(rows.load, [made])
    crate = rows.decode(record["snapshot"])
    assert crate.keep == timedelta(days=1, minutes=90)
    kept = Finished[KeptCrate, Answer](
        id=made, epoch=1, version=1, due=Due.PERIODIC, outcome="update", to=crate.but(keep=timedelta(seconds=1.5))
    )
    changes = {"runs": [{"run": made, "version": 1}], **rows.changes([kept])}
    await yard.pool.fetch("SELECT * FROM farrier.write_resources($1::jsonb)", msgspec.json.encode(changes).decode())
    assert (await yard.crate(made))["keep"] == timedelta(seconds=1.5)


async def test_the_error_of_an_undecodable_snapshot_names_the_fault() -> None:
    with pytest.raises(UndecodableState, match=r"cannot decode a crate: .*missing required field"):
        crates.rows().decode('{"id": 1}')


async def test_only_resources_with_an_interrupting_intent_are_found_as_interrupted(yard: Yard) -> None:
    first, second = await yard.create("c-1"), await yard.create("c-2")
    await yard.ask("update", "c-1", '{"labels": []}')
    await yard.ask("delete", "c-2")
    assert await yard.io().interrupted([first, second]) == {second}


# --- commits


async def test_a_run_on_an_older_version_writes_nothing_and_is_repeated_at_once(yard: Yard) -> None:
    first, second = await yard.create("c-1"), await yard.create("c-2")
    asked = [await yard.ask("delete", name) for name in ("c-1", "c-2")]
    await yard.pool.execute("UPDATE farrier_crates.crates SET version = 2 WHERE id = $1", first)
    stale = await write(
        yard,
        runs=[{"run": first, "version": 1}, {"run": second, "version": 1}],
        resources=[
            {"run": first, "state": "packed", "last_error": None, "labels": ["x"]},
            {"run": second, "state": "packed", "last_error": "torn", "labels": ["y"]},
        ],
        answers=[
            {"run": run, "request": request, "accepted": True, "reason": ""}
            for run, request in zip((first, second), asked, strict=True)
        ],
    )
    assert stale == [(first, timedelta(0))]
    one, two = await yard.crate(first), await yard.crate(second)
    assert (one["state"], one["labels"], one["version"]) == ("packing", [], 2)
    assert (two["state"], two["labels"], two["version"], two["last_error"]) == ("packed", ["y"], 2, "torn")
    assert [(await yard.intent(id_))["status"] for id_ in asked] == ["pending", "accepted"]


async def test_a_run_of_a_lost_shard_does_not_affect_other_runs(yard: Yard) -> None:
    first, second = await yard.create("c-1"), await yard.create("c-2")
    io, fence = yard.io(), await fences.owned(yard.pool, "crate")
    loaded = await io.load([first, second])
    runs = [
        packed(loaded, id_, epoch) for id_, epoch in ((first, fence.epoch(first) + 1), (second, fence.epoch(second)))
    ]
    results = await io.commit(runs, fence.controller)
    assert (results[first].verdict, results[second].verdict) == (CommitVerdict.LOST, CommitVerdict.COMMITTED)
    assert [(await yard.crate(id_))["state"] for id_ in (first, second)] == ["packing", "packed"]


async def test_a_commit_without_a_reply_is_found_by_its_id(yard: Yard) -> None:
    moved, asked = await yard.create("c-1"), await yard.create("c-2")
    request = await yard.ask("delete", "c-2")
    io, fence = yard.io(), await fences.owned(yard.pool, "crate")
    loaded = await io.load([moved, asked])
    answers = answered(loaded, asked, fence, request)
    runs = [packed(loaded, moved, fence.epoch(moved)), answers]
    await io.commit(runs, fence.controller)
    assert {each for each, settled in (await io.settle(runs)).items() if settled.happened} == {moved, asked}
    others = [packed(loaded, moved, fence.epoch(moved)), answered(loaded, asked, fence, request)]
    assert not any(settled.happened for settled in (await io.settle(others)).values()), "decided on the same versions"


async def test_a_write_that_the_table_refuses_refuses_only_the_run_that_made_it(yard: Yard) -> None:
    first, second = await yard.create("c-1"), await yard.create("c-2")
    io, fence = yard.io(), await fences.owned(yard.pool, "crate")
    loaded = await io.load([first, second])
    poisoned = packed(loaded, first, fence.epoch(first), labels=("poison",))
    results = await io.commit([poisoned, packed(loaded, second, fence.epoch(second))], fence.controller)
    assert (results[first].verdict, results[second].verdict) == (CommitVerdict.REFUSED, CommitVerdict.COMMITTED)


async def test_an_intent_committed_after_the_load_enqueues_the_resource_although_the_run_ends_it(
    yard: Yard,
) -> None:
    made = await yard.create()
    io, fence = yard.io(), await fences.owned(yard.pool, "crate")
    loaded = await io.load([made])
    asked = await yard.ask("delete")
    assert (await io.commit([ended(loaded, made, fence)], fence.controller))[made].verdict is CommitVerdict.COMMITTED
    assert (await io.listing([made % SHARDS])).ids == {made: True}
    again = await io.load([made])
    assert len(again.wakes[made]) == 1
    assert again.resources[made].requests == ()
    answered = await yard.intent(asked)
    assert (answered["status"], answered["reason"]) == ("rejected", "this crate has ended")


class KeptCrate(Crate, frozen=True, kw_only=True):
    keep: timedelta


async def test_an_intent_that_a_handler_left_unanswered_is_rejected_when_the_resource_ends(yard: Yard) -> None:
    made, asked = await yard.create(), await yard.ask("delete")
    other = await yard.create("c-2")
    waiting = await yard.ask("delete", "c-2")
    io, fence = yard.io(), await fences.owned(yard.pool, "crate")
    loaded = await io.load([made])
    assert (await io.commit([ended(loaded, made, fence)], fence.controller))[made].verdict is CommitVerdict.COMMITTED
    answered = await yard.intent(asked)
    assert (answered["status"], answered["reason"]) == ("rejected", "this crate has ended")
    assert answered["answered_at"] is not None
    assert (await yard.intent(waiting))["status"] == "pending", other


async def test_an_intent_committed_after_the_resource_ended_is_rejected_by_one_more_run(yard: Yard) -> None:
    made = await yard.create()
    async with yard.running() as owner, yard.db.connect() as client:
        await owner.settled()
        transaction = client.transaction()
        await transaction.start()
        late = await crates.ask(client, "update", "c-1", '{"labels": ["a"]}')
        await yard.ask("delete")
        await owner.settled()
        assert (await yard.crate(made))["ended_at"] is not None
        await transaction.commit()
        await owner.settled()
        assert (await yard.intent(late))["status"] == "rejected"
        await yard.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes WHERE kind = 'crate')")


async def test_python_enqueues_a_resource_as_sql_does(yard: Yard) -> None:
    made = await yard.create()
    async with open_enqueuer(yard.db.dsn) as enqueuer:
        await enqueuer.enqueue("crate", made)
        with pytest.raises(RefusedByModel, match="no crate has ID 99"):
            await enqueuer.enqueue("crate", 99)
    assert (
        await yard.pool.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'crate' AND resource = $1", made) == 2
    )


def packed(loaded: Loaded[Crate], id_: int, epoch: int, **changes: Any) -> Finished[Crate, Answer]:
    crate = loaded.resources[id_]
    return Finished(
        id=id_,
        epoch=epoch,
        wakes=loaded.wakes[id_],
        version=crate.version,
        due=Due.RERUN,
        outcome="transition",
        to=msgspec.structs.replace(crate, state="packed", **changes),
        moves=(Move("state", "packing", "packed", None),),
        record=Record("transition"),
    )


def answered(loaded: Loaded[Crate], id_: int, fence: fences.Fence, request: int) -> Finished[Crate, Answer]:
    return Finished(
        id=id_,
        epoch=fence.epoch(id_),
        wakes=loaded.wakes[id_],
        version=loaded.resources[id_].version,
        due=Due.PERIODIC,
        outcome="do_nothing",
        writes=(Answer(request, accepted=True),),
    )


def ended(loaded: Loaded[Crate], id_: int, fence: fences.Fence) -> Finished[Crate, Answer]:
    return Finished(
        id=id_,
        epoch=fence.epoch(id_),
        wakes=loaded.wakes[id_],
        version=loaded.resources[id_].version,
        due=Due.NEVER,
        outcome="deleted",
    )


# --- a whole life


async def test_a_whole_life_is_in_the_history_and_leaves_no_wake(yard: Yard) -> None:
    made = await yard.create()
    async with yard.running():
        await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", made)
        await yard.ask("delete")
        await yard.db.until("SELECT ended_at IS NOT NULL FROM farrier_crates.crates WHERE id = $1", made)
        await yard.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes WHERE kind = 'crate')")
    history = await yard.pool.fetch(
        "SELECT from_value, to_value FROM farrier.history"
        " WHERE kind = 'crate' AND id = $1 AND from_value IS NOT NULL ORDER BY version",
        made,
    )
    assert [tuple(move) for move in history] == [
        ("packing", "packed"),
        ("packed", "emptying/unpack"),
        ("emptying/unpack", "gone"),
    ]
    crate = await yard.crate(made)
    assert crate["ended_at"] == crate["state_entered_at"]
    assert not await yard.pool.fetchval("SELECT count(*) FROM farrier.pool_numbers")


# --- listing


async def test_live_resources_are_listed_with_their_own_columns_and_last_outcome(yard: Yard) -> None:
    first, second = await yard.create("c-2"), await yard.create("c-1")
    for state in ("packed", "emptying/unpack", "gone"):
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1 WHERE id = $2", state, first)
    async with yard.running():
        await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", second)
        await yard.db.until("SELECT outcome ->> 'outcome' = 'do_nothing' FROM farrier.outcomes WHERE id = $1", second)
    (one,) = await yard.pool.fetch("SELECT * FROM farrier.list_resources('crate')")
    assert (one["kind"], one["id"], one["name"], one["state"], one["ended_at"]) == (
        "crate",
        second,
        "c-1",
        "packed",
        None,
    )
    assert json.loads(one["detail"]) == {"size": 3, "labels": [], "slot": 2}
    assert json.loads(one["outcome"])["outcome"] == "do_nothing"
    everything = await yard.pool.fetch("SELECT * FROM farrier.list_resources(NULL, true) WHERE kind = 'crate'")
    assert [(r["name"], r["ended_at"] is None) for r in everything] == [("c-1", True), ("c-2", False)]


@pytest.mark.parametrize(
    ("kind", "told"), [("barrel", "unknown kind 'barrel'"), ("node", "kind node has its own tables")]
)
async def test_a_listing_of_an_unknown_kind_or_of_nodes_is_refused(yard: Yard, kind: str, told: str) -> None:
    with pytest.raises(pg.PostgresError, match=told):
        await yard.pool.fetch(f"SELECT * FROM farrier.list_resources('{kind}')")


@pytest.mark.parametrize("schema", ["farrier_crates", "farrier"])
async def test_the_detail_function_of_a_kind_adds_to_both_listings(yard: Yard, schema: str) -> None:
    """The detail comes from a function in the schema of the kind's table, and from no other schema."""
    await yard.create()
    await yard.pool.execute(
        f"CREATE FUNCTION {schema}.crate_detail(bigint) RETURNS jsonb LANGUAGE sql"
        " AS $$ SELECT '{\"mine\": 1}'::jsonb $$"
    )
    listed = await yard.pool.fetchval("SELECT detail FROM farrier.list_resources('crate')")
    shown = await yard.pool.fetchval(
        "SELECT s -> 'detail' FROM farrier.show_resources('crate', NULL, '{}', '{}', false, '', 0, 10) s"
    )
    own = {"size": 3, "labels": [], "slot": 1}
    assert json.loads(listed) == json.loads(shown) == (own | {"mine": 1} if schema == "farrier_crates" else own)


async def test_a_resource_that_ends_frees_its_numbers(yard: Yard) -> None:
    made = await yard.create()
    await yard.pool.execute("SELECT farrier.take_number('slots', 'crate', $1)", made)
    for state in ("packed", "emptying/unpack"):
        await yard.pool.execute("UPDATE farrier_crates.crates SET state = $1", state)
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier.pool_numbers") == 2
    await yard.pool.execute("UPDATE farrier_crates.crates SET state = 'gone'")
    assert await yard.pool.fetchval("SELECT count(*) FROM farrier.pool_numbers") == 0
