"""Intents for partitions: which are refused and with which text, and a drain that begins at once and waits."""

from __future__ import annotations

import pytest

from farrier.sim.faults import Fault
from tests.support import pg
from tests.support.partitions import GUIDS, KEY, SITE, Fabric


async def refusal(fabric: Fabric, **params: object) -> pg.PostgresError:
    with pytest.raises(pg.PostgresError) as caught:
        await fabric.ask("create", "ib", **params)
    return caught.value


INVALID: list[tuple[dict[str, object], str, str]] = [
    ({"site": SITE, "pkey": 0}, "FR400", "must be 1 or more"),
    ({"site": SITE, "pkey": 0x7FFF}, "FR400", "must be 32766 or less"),
    ({"site": SITE, "pkey": "0x12"}, "FR400", "whole number"),
    ({"site": SITE, "pkey": 0x20}, "FR409", "is not in pool pkey:north"),
    ({"site": SITE, "mtu_limit": 3}, "FR400", "mtu_limit must be 2 or 4"),
    ({"site": SITE, "mtu_limit": 8}, "FR400", "must be 4 or less"),
    ({"site": SITE, "rate_limit": "17"}, "FR400", "must be one of 2.5, 5"),
    ({"site": SITE, "rate_limit": 100}, "FR400", "must be a string"),
    ({"site": SITE, "service_level": 16}, "FR400", "must be 15 or less"),
    ({"site": SITE, "index0": "yes"}, "FR400", "true or false"),
    ({"site": SITE, "colour": "red"}, "FR400", "is unknown"),
    ({"site": "south"}, "FR409", "pool 'pkey:south' does not exist"),
    ({}, "FR409", "pool 'pkey' does not exist"),
]


async def test_an_invalid_creation_is_refused_at_the_insert(every_fabric: Fabric) -> None:
    for params, code, words in INVALID:
        error = await refusal(every_fabric, **params)
        assert error.sqlstate == code and words in str(error), words
        assert await every_fabric.taken() == []


async def test_a_partition_gets_the_given_number_or_the_lowest_free_one(every_fabric: Fabric) -> None:
    made = [
        await every_fabric.create("a", pkey=KEY + 1),
        await every_fabric.create("b"),
        await every_fabric.create("c"),
    ]
    rows = [(await every_fabric.row(id_))["pkey"] for id_ in made]
    assert rows == [KEY + 1, KEY, KEY + 2]
    error = await refusal(every_fabric, site=SITE, pkey=KEY)
    assert error.sqlstate == "FR409" and "taken" in str(error)


async def test_an_exhausted_pool_refuses_a_creation(every_fabric: Fabric) -> None:
    for number in range(16):
        await every_fabric.create(f"ib-{number}")
    error = await refusal(every_fabric, site=SITE)
    assert error.sqlstate == "FR409" and "is exhausted" in str(error)


async def test_a_pool_with_numbers_outside_of_the_keys_is_refused(every_fabric: Fabric) -> None:
    for pool, first, last in (("pkey", 0, 31), ("pkey:south", -5, 31), (f"pkey:{SITE}", 16, 32767)):
        with pytest.raises(pg.PostgresError, match="0x7ffe") as caught:
            await every_fabric.conn.execute("SELECT farrier.set_pool($1, $2, $3)", pool, first, last)
        assert caught.value.sqlstate == "FR400"


async def test_pools_of_other_kinds_may_have_any_numbers(every_fabric: Fabric) -> None:
    await every_fabric.conn.execute("SELECT farrier.set_pool('pkeys', 0, 40000)")
    await every_fabric.conn.execute("SELECT farrier.set_pool('pkey:south', 1, 32766)")
    assert (await every_fabric.row(await every_fabric.create(site="south")))["pkey"] == 1


async def test_an_empty_update_of_a_partition_is_refused(fabric: Fabric) -> None:
    await fabric.ready()
    with pytest.raises(pg.PostgresError, match="at least one of"):
        await fabric.ask("update")


async def test_an_update_to_an_invalid_mtu_is_rejected_and_changes_nothing(fabric: Fabric) -> None:
    made = await fabric.ready()
    assert await fabric.asked("update", mtu_limit=3, service_level=4) == (
        "rejected",
        "mtu_limit must be 2 or 4 (KiB); got 3",
    )
    row = await fabric.row(made)
    assert (row["mtu_limit"], row["service_level"]) == (2, 0)


async def test_a_partition_with_members_is_not_deleted_and_its_users_are_named(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:13])
    status, reason = await fabric.asked("delete")
    assert status == "rejected"
    assert "node-1, node-10, node-11" in reason and "and 3 more" in reason and "drain: true" in reason
    assert await fabric.history(made) == ["ready"] and len(fabric.ports) == 13


async def test_a_drain_begins_at_once_and_waits_for_the_members_to_leave(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:2])
    assert (await fabric.asked("delete", drain=True))[0] == "accepted"
    assert await fabric.state(made) == "deleting"
    assert (await fabric.outcome(made))["reason"] == "waits for members to leave: node-1, node-2"
    await fabric.wait()
    await fabric.leave(GUIDS[0], "node-1")
    await fabric.settle()
    assert fabric.ports == {GUIDS[1]: "full"}
    assert (await fabric.outcome(made))["reason"] == "waits for members to leave: node-2"
    entered = (await fabric.row(made))["state_entered_at"]
    await fabric.wait()
    assert (await fabric.row(made))["state_entered_at"] == entered
    await fabric.leave(GUIDS[1], "node-2")
    await fabric.settle()
    assert await fabric.history(made) == ["ready", "deleting", "gone"]
    assert KEY not in fabric.manager.partitions and await fabric.taken() == [] and await fabric.members() == {}


async def test_a_partition_that_was_never_sent_to_ufm_drains_without_it(fabric: Fabric) -> None:
    fabric.manager.faults.add(Fault(status=500, times=None))
    made = await fabric.create()
    await fabric.join(GUIDS[0])
    assert (await fabric.asked("delete", drain=True))[0] == "accepted"
    assert (await fabric.outcome(made))["reason"] == "waits for members to leave: node-1"
    await fabric.leave(GUIDS[0])
    await fabric.settle()
    assert await fabric.history(made) == ["deleting", "gone"]
    assert await fabric.members() == {} and await fabric.taken() == []


async def test_a_waiting_drain_costs_one_run_a_period(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    await fabric.asked("delete", drain=True)
    assert await fabric.settle() == 0
    assert await fabric.wait() == 1


async def test_a_member_of_a_draining_partition_keeps_its_port(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    await fabric.asked("delete", drain=True)
    del fabric.manager.partitions[KEY]
    await fabric.wait()
    assert fabric.ports == {GUIDS[0]: "full"}


async def test_intents_for_a_partition_in_deletion_are_answered(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    await fabric.asked("delete", drain=True)
    status, reason = await fabric.asked("update", mtu_limit=4)
    assert status == "rejected" and "deleting" in reason
    assert await fabric.asked("delete") == ("accepted", "the partition is already being deleted")
    assert await fabric.state(made) == "deleting"


async def test_intents_of_one_transaction_are_answered_in_order(fabric: Fabric) -> None:
    made = await fabric.ready()
    async with fabric.conn.transaction():
        asked = [
            await fabric.conn.fetchval(
                "SELECT farrier.resource_intent('ib_partition', 'ib', $1, $2::text::jsonb)", action, params
            )
            for action, params in (
                ("update", '{"service_level": 1}'),
                ("update", '{"service_level": 2}'),
                ("delete", "{}"),
                ("update", '{"service_level": 3}'),
            )
        ]
    await fabric.settle()
    assert [(await fabric.answer(one))[0] for one in asked] == ["accepted", "accepted", "accepted", "rejected"]
    assert await fabric.state(made) == "gone" and (await fabric.row(made))["service_level"] == 2


async def test_a_deletion_that_ufm_refuses_waits_reports_that_and_keeps_the_number(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.refuses[KEY] = "in use by SHARP"
    await fabric.asked("delete")
    assert await fabric.state(made) == "deleting"
    assert "in use by SHARP" in (await fabric.outcome(made))["reason"]
    assert await fabric.taken() == [KEY]
    fabric.manager.refuses.clear()
    await fabric.wait()
    assert await fabric.state(made) == "gone"


async def test_a_404_for_the_deletion_of_a_key_ends_the_partition(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.faults.add(Fault(op="delete", status=404, body=b"does not exist", content_type="text/plain"))
    request = await fabric.ask("delete")
    await fabric.settle()
    assert (await fabric.answer(request))[0] == "accepted"
    await fabric.wait()
    assert await fabric.state(made) == "gone"
