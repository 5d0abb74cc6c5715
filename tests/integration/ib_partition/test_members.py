"""Members: joining and leaving, the ports that UFM has afterwards, and calls that are refused."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.support import pg
from tests.support.partitions import GUIDS, KEY, SITE, Fabric


async def test_joining_ports_are_added_in_ufm_and_leaving_ports_are_removed(fabric: Fabric) -> None:
    await fabric.ready()
    assert await fabric.join(GUIDS[0]) == "pending"
    assert await fabric.join(GUIDS[1], "node-2", membership="limited") == "pending"
    await fabric.settle()
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "limited"}
    assert await fabric.members() == {GUIDS[0]: "applied", GUIDS[1]: "applied"}
    await fabric.leave(GUIDS[0])
    assert await fabric.members() == {GUIDS[0]: "leaving", GUIDS[1]: "applied"}
    await fabric.settle()
    assert fabric.ports == {GUIDS[1]: "limited"}
    assert await fabric.members() == {GUIDS[1]: "applied"}


async def test_when_the_last_member_leaves_ufm_drops_the_key_and_the_key_is_made_again(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0], mtu_limit=4)
    await fabric.leave(GUIDS[0])
    await fabric.settle()
    await fabric.wait()
    assert fabric.manager.partitions[KEY].mtu_limit == 4 and not fabric.ports
    assert await fabric.members() == {}
    before = len(fabric.manager.changes)
    await fabric.wait()
    assert len(fabric.manager.changes) == before
    assert await fabric.history(made) == ["ready"]


async def test_repeated_joins_and_leaves_change_nothing_and_enqueue_nothing(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    assert await fabric.join(GUIDS[0]) == "applied"
    assert await fabric.settle() == 0
    await fabric.leave(GUIDS[5])
    assert await fabric.settle() == 0
    await fabric.leave(GUIDS[0])
    await fabric.leave(GUIDS[0])
    await fabric.settle()
    await fabric.leave(GUIDS[0])
    assert await fabric.settle() == 0


async def test_members_that_wait_for_a_partition_are_made_with_it(fabric: Fabric) -> None:
    await fabric.create()
    await fabric.join(GUIDS[0])
    await fabric.settle()
    assert fabric.ports == {GUIDS[0]: "full"}
    assert await fabric.members() == {GUIDS[0]: "applied"}


async def test_a_port_that_joins_again_before_it_was_removed_stays(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    async with fabric.conn.transaction():
        for call in ("leave_partition($1, $2, $3)", "join_partition($1, $2, $3)"):
            await fabric.conn.execute(f"SELECT farrier.{call}", "ib", GUIDS[0], "node-1")
    await fabric.settle()
    assert fabric.ports == {GUIDS[0]: "full"} and await fabric.members() == {GUIDS[0]: "applied"}
    assert "remove" not in fabric.manager.changes


async def test_another_owner_may_join_with_a_port_that_is_leaving(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    await fabric.leave(GUIDS[0])
    assert await fabric.join(GUIDS[0], "node-7") == "pending"
    await fabric.settle()
    assert await fabric.members() == {GUIDS[0]: "applied"}
    assert await fabric.conn.fetchval("SELECT owner FROM farrier.ib_members") == "node-7"


async def test_a_membership_is_changed_without_removing_the_port(fabric: Fabric) -> None:
    await fabric.ready("ib", *GUIDS[:2])
    assert await fabric.join(GUIDS[0], membership="limited") == "pending"
    await fabric.settle()
    assert fabric.ports == {GUIDS[0]: "limited", GUIDS[1]: "full"}
    assert "remove" not in fabric.manager.changes


async def test_one_bad_port_does_not_keep_others_from_joining_and_is_retried(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.ports = set(GUIDS) - {GUIDS[3]}
    for guid in GUIDS[:8]:
        await fabric.join(guid, f"node-{guid[-1]}")
    await fabric.settle()
    assert set(fabric.ports) == set(GUIDS[:8]) - {GUIDS[3]}
    assert {guid for guid, state in (await fabric.members()).items() if state == "refused"} == {GUIDS[3]}
    assert await fabric.state(made) == "error" and GUIDS[3] in (await fabric.row(made))["last_error"]
    await fabric.join(GUIDS[8], "node-8")  # meanwhile other members join and leave
    await fabric.leave(GUIDS[0], "node-1")
    await fabric.settle()
    assert GUIDS[8] in fabric.ports and GUIDS[0] not in fabric.ports
    fabric.manager.ports = None
    await fabric.wait()
    assert await fabric.state(made) == "ready"
    assert set((await fabric.members()).values()) == {"applied"}


async def test_one_bad_port_does_not_keep_other_ports_from_being_changed_or_reported(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:4])
    fabric.manager.ports = set(GUIDS) - {GUIDS[0]}  # the port's server was removed, and UFM keeps its membership
    async with fabric.conn.transaction():
        for membership, guid in (("limited", GUIDS[1]), ("full", GUIDS[7]), ("full", "0002c903deadbeef")):
            owner = f"node-{GUIDS.index(guid) + 1}" if guid in GUIDS else "typo"
            await fabric.conn.execute("SELECT farrier.join_partition('ib', $1, $2, NULL, $3)", guid, owner, membership)
        await fabric.conn.execute("SELECT farrier.leave_partition('ib', $1, 'node-3')", GUIDS[2])
    await fabric.settle()
    assert set(fabric.ports) == {GUIDS[0], GUIDS[1], GUIDS[3], GUIDS[7]}
    states = {GUIDS[0]: "applied", GUIDS[1]: "refused", GUIDS[3]: "applied", GUIDS[7]: "applied"}
    assert await fabric.members() == {**states, "0002c903deadbeef": "refused"}
    reason = await fabric.conn.fetchval("SELECT reason FROM farrier.ib_members WHERE guid = $1", GUIDS[1])
    assert f"GUID {GUIDS[0]} is not in the fabric" in reason
    assert await fabric.state(made) == "error"
    await fabric.leave("0002c903deadbeef", "typo")
    fabric.manager.ports = None
    await fabric.wait()
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "limited", GUIDS[3]: "full", GUIDS[7]: "full"}
    assert await fabric.state(made) == "ready"


async def test_many_bad_ports_do_not_keep_a_port_from_leaving(fabric: Fabric) -> None:
    await fabric.ready("ib", *GUIDS[:2])
    fabric.manager.ports = set(GUIDS[:2])
    await fabric.conn.execute(
        "SELECT farrier.join_partition('ib', lpad(to_hex(n), 16, '0'), 'node-' || n) FROM generate_series(1, 250) n"
    )
    await fabric.leave(GUIDS[0])
    await fabric.settle()
    assert fabric.ports == {GUIDS[1]: "full"}


async def test_a_replica_with_an_old_reading_does_not_add_removed_ports_again(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:3])
    async with fabric.another_replica() as another:
        client = another.client(SITE)
        assert client is not None and await client.read(KEY) is not None
        await fabric.join(GUIDS[1], "node-2", membership="limited")
        await fabric.leave(GUIDS[2], "node-3")
        await fabric.settle()
        before = len(fabric.manager.changes)
        await fabric.pool.execute("SELECT farrier.enqueue('ib_partition', $1)", made)
        fabric.fabrics = another
        await fabric.settle()
    assert fabric.manager.changes[before:] == []
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "limited"}


async def test_hundreds_of_ports_join_with_a_few_requests(fabric: Fabric) -> None:
    await fabric.ready()
    await fabric.conn.execute(
        "SELECT farrier.join_partition('ib', lpad(to_hex(n), 16, '0'), 'node-' || n) FROM generate_series(1, 250) n"
    )
    before = len(fabric.manager.changes)
    await fabric.settle()
    assert len(fabric.ports) == 250
    assert fabric.manager.changes[before:] == ["add"] * 3


async def test_a_guid_is_the_same_in_every_notation(fabric: Fabric) -> None:
    await fabric.ready()
    await fabric.join(f"0x{GUIDS[0].upper()}")
    assert await fabric.join(GUIDS[0]) == "pending"
    await fabric.settle()
    assert await fabric.members() == {GUIDS[0]: "applied"}


async def test_a_join_after_an_unrecorded_removal_is_made_in_ufm(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    await fabric.leave(GUIDS[0])
    await fabric.crash(made)  # UFM has removed the port, and the member is still leaving
    await fabric.join(GUIDS[0])
    await fabric.settle()
    assert fabric.ports == {GUIDS[0]: "full"} and await fabric.members() == {GUIDS[0]: "applied"}


# --- refusals


async def refusal(fabric: Fabric, statement: str, *arguments: object) -> pg.PostgresError:
    with pytest.raises(pg.PostgresError) as caught:
        await fabric.pool.execute(statement, *arguments)
    return caught.value


async def test_an_invalid_join_is_refused_with_the_reason(every_fabric: Fabric) -> None:
    await every_fabric.create()
    for arguments, code, words in (
        (("'nothing'", "'0002c903000e0001'", "'me'"), "FR404", "nothing"),
        (("'ib'", "'xyz'", "'me'"), "FR400", "16 hexadecimal digits"),
        (("'ib'", "NULL", "'me'"), "FR400", "16 hexadecimal digits"),
        (("'ib'", "'0002c903000e00011'", "'me'"), "FR400", "16 hexadecimal digits"),
        (("'ib'", "'0002c903000e0001'", "' '"), "FR400", "owner"),
        (("'ib'", "'0002c903000e0001'", "NULL"), "FR400", "owner"),
        (("'ib'", "'0002c903000e0001'", "'me'", "NULL", "'half'"), "FR400", "full or limited"),
        (("'ib'", "'0002c903000e0001'", "'me'", "4711"), "FR404", "4711"),
    ):
        error = await refusal(every_fabric, f"SELECT farrier.join_partition({', '.join(arguments)})")
        assert error.sqlstate == code and words in str(error)


async def test_an_owner_cannot_join_or_leave_with_another_owners_port(every_fabric: Fabric) -> None:
    await every_fabric.create()
    await every_fabric.join(GUIDS[0], "node-1")
    for call in ("join_partition", "leave_partition"):
        error = await refusal(every_fabric, f"SELECT farrier.{call}('ib', $1, 'node-2')", GUIDS[0])
        assert error.sqlstate == "FR409" and "node-1" in str(error)


async def test_a_partition_in_deletion_or_gone_refuses_joins(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    await fabric.asked("delete", drain=True)
    error = await refusal(fabric, "SELECT farrier.join_partition('ib', $1, 'node-2')", GUIDS[1])
    assert error.sqlstate == "FR409" and "being deleted" in str(error)
    await fabric.leave(GUIDS[0])
    await fabric.settle()
    error = await refusal(fabric, "SELECT farrier.join_partition('ib', $1, 'node-2')", GUIDS[1])
    assert error.sqlstate == "FR404"
    await fabric.leave(GUIDS[0])  # leaving a partition that is gone succeeds


async def test_a_join_concurrent_with_the_deletion_is_refused_at_its_commit(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.asynchronous = True  # so that the partition stays in deleting for a while
    async with fabric.db.connect() as client:
        joining = client.transaction()
        await joining.start()
        await client.execute("SELECT farrier.join_partition('ib', $1, 'node-1')", GUIDS[0])
        assert (await fabric.asked("delete"))[0] == "accepted"
        with pytest.raises(pg.PostgresError, match="being deleted") as caught:
            await joining.commit()
    assert caught.value.sqlstate == "FR409"
    assert await fabric.state(made) == "deleting" and await fabric.members() == {}


async def test_a_deletion_decided_before_a_join_is_decided_again(fabric: Fabric) -> None:
    made = await fabric.ready()
    request = await fabric.ask("delete")
    await fabric.join(GUIDS[0])
    # The change of a run whose snapshot does not have the member.
    change = {"run": made, "state": "deleting", "last_error": None, "draining": False}
    changes = {
        "kind": [{"run": made, "kind": "ib_partition"}],
        "runs": [{"run": made, "version": (await fabric.row(made))["version"]}],
        "resources": [change],
    }
    written = await fabric.conn.fetch(
        "SELECT run FROM farrier.write_ib_partitions($1::text::jsonb)", json.dumps(changes)
    )
    assert [one["run"] for one in written] == [made] and await fabric.state(made) == "ready"
    await fabric.settle()
    assert (await fabric.answer(request))[0] == "rejected"


async def test_many_concurrent_joins_and_leaves_all_take_effect(fabric: Fabric) -> None:
    made = await fabric.ready()

    async def come_and_go(number: int) -> None:
        await fabric.join(GUIDS[number], f"node-{number}")
        if number % 2:
            await fabric.leave(GUIDS[number], f"node-{number}")

    async with fabric.running(), anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(come_and_go, number)
    await fabric.settle()
    assert set(fabric.ports) == {guid for number, guid in enumerate(GUIDS) if number % 2 == 0}
    assert set((await fabric.members()).values()) == {"applied"}
    assert await fabric.state(made) == "ready"


async def test_the_intents_role_may_join_leave_and_list_and_not_write(fabric: Fabric) -> None:
    await fabric.ready("ib", GUIDS[0])
    async with fabric.db.connect() as client:
        await client.execute("SET ROLE farrier_intents")
        assert await client.fetchval("SELECT farrier.join_partition('ib', $1, 'me')", GUIDS[1]) == "pending"
        await client.execute("SELECT farrier.leave_partition('ib', $1, 'me')", GUIDS[1])
        rows = await client.fetch("SELECT owner, state FROM farrier.partition_members('ib') ORDER BY guid")
        assert [tuple(row) for row in rows] == [("node-1", "applied"), ("me", "leaving")]
        with pytest.raises(pg.PostgresError, match="permission denied"):
            await client.execute("DELETE FROM farrier.ib_members")
