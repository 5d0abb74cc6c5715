"""Heartbeats that a server for agents passes on: one statement for many agents, and a verdict for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from farrier.io.connections.pool import Connection
from tests.support import pg
from tests.support.site import Machine, Site

TAKE = "SELECT * FROM farrier.take_beats($1::jsonb, $2)"
CLAIM = "SELECT * FROM farrier.claim_by_key(decode($1, 'hex'), '{node.drain}', $2)"
FINISH = "SELECT farrier.finish_by_key(decode($1, 'hex'), $2, $3, true, '{}', $4::jsonb)"
BOOT = UUID(int=1)


def digest_of(machine: Machine) -> str:
    return hashlib.sha256(machine.key.encode()).hexdigest()


def beat(machine: Machine, boot: UUID = BOOT, **fields: Any) -> dict[str, Any]:
    return {"key": digest_of(machine), "boot": str(boot), "health": {"ok": True}, **fields}


def alert(id_: str, target: str = "", *, blocks: bool = False) -> dict[str, Any]:
    return {"id": id_, "target": target, "message": "seen", "blocks_scheduling": blocks}


async def take(conn: Connection, *beats: dict[str, Any], patient: bool = False) -> list[Any]:
    """Send these heartbeats in one statement; returns their verdicts in their order."""
    given = [{"place": place, **each} for place, each in enumerate(beats)]
    return sorted(await conn.fetch(TAKE, json.dumps(given), patient), key=lambda row: row["place"])


async def verdicts(conn: Connection, *beats: dict[str, Any], patient: bool = False) -> list[str]:
    return [row["verdict"] for row in await take(conn, *beats, patient=patient)]


async def heard(machine: Machine) -> Any:
    return await machine.site.conn.fetchval(
        "SELECT last_heartbeat_at FROM farrier.node_agents WHERE node_id = $1", machine.id
    )


async def targets(machine: Machine) -> dict[tuple[str, str], str]:
    rows = await machine.site.conn.fetch(
        "SELECT id, target, effect FROM farrier.node_conditions WHERE node = $1 AND source = 'agent'", machine.id
    )
    return {(row["id"], row["target"]): row["effect"] for row in rows}


@asynccontextmanager
async def listening(db: pg.Database) -> AsyncIterator[list[str]]:
    """Collect the notifications of wakes; when the block ends, the list is complete."""
    notified: list[str] = []
    async with db.connect() as conn:
        await conn.add_listener("farrier_wake", lambda *told: notified.append(told[-1]))
        yield notified
        await conn.execute("SELECT")  # its response follows the notifications of earlier commits


async def test_each_heartbeat_of_a_batch_has_its_own_verdict(site: Site) -> None:
    """An unknown key, a malformed report and a locked row fail no other heartbeat."""
    sound, second, malformed, locked = [await site.enrolled() for _ in range(4)]
    async with site.db.connect() as other, other.transaction():
        await other.execute("SELECT FROM farrier.node_agents WHERE node_id = $1 FOR UPDATE", locked.id)
        stranger = {**beat(sound), "key": "0" * 64}
        wrong = beat(malformed, health={"ok": "perhaps"})
        rows = await take(site.conn, beat(second), wrong, stranger, beat(locked), beat(sound))
    assert [row["verdict"] for row in rows] == ["taken", "refused", "unknown", "locked", "taken"]
    assert rows[1]["reason"] == "health.ok must be true or false"
    assert await heard(sound) and await heard(second)
    assert not await heard(malformed) and not await heard(locked)
    assert await verdicts(site.conn, beat(locked), patient=True) == ["taken"]


async def test_doors_with_interleaved_batches_and_a_locked_node_neither_wait_nor_deadlock(site: Site) -> None:
    machines = [await site.enrolled() for _ in range(4)]
    async with site.db.connect() as first, site.db.connect() as second, site.db.connect() as holder:
        await first.execute("SET lock_timeout = '1ms'; SET deadlock_timeout = '1ms'")
        await second.execute("SET lock_timeout = '1ms'; SET deadlock_timeout = '1ms'")
        async with holder.transaction(), first.transaction(), second.transaction():
            await holder.execute("SELECT FROM farrier.node_agents WHERE node_id = $1 FOR UPDATE", machines[0].id)
            one = await verdicts(first, *(beat(each) for each in machines[:3]))
            two = await verdicts(second, *(beat(each) for each in reversed(machines)))
        assert one == ["locked", "taken", "taken"]
        assert two == ["taken", "locked", "locked", "locked"]


async def test_a_report_waits_for_no_commit_that_changes_the_nodes_conditions(site: Site) -> None:
    first, second = await site.enrolled(), await site.enrolled()
    await take(site.conn, beat(first, health={"alerts": [alert("xid")]}), beat(second))
    async with site.db.connect() as commit, commit.transaction():
        await commit.execute("UPDATE farrier.node_conditions SET effect = 'note' WHERE node = $1", first.id)
        await site.conn.execute("SET lock_timeout = '1ms'")
        changed = beat(first, health={"alerts": [alert("ecc")]})
        assert await verdicts(site.conn, changed, beat(second)) == ["locked", "taken"]
        await site.conn.execute("RESET lock_timeout")
    assert await verdicts(site.conn, changed, patient=True) == ["taken"]
    assert await targets(first) == {("ecc", ""): "note"}


async def test_a_heartbeat_by_a_door_decides_as_one_by_sql_does(site: Site) -> None:
    machine = await site.active()
    blocked = {"ok": True, "alerts": [alert("gpu_lost", "GPU-1", blocks=True), alert("gpu_lost", "GPU-2")]}
    assert await verdicts(site.conn, beat(machine, health=blocked)) == ["taken"]
    await site.settled()
    assert await targets(machine) == {("gpu_lost", "GPU-1"): "quarantine", ("gpu_lost", "GPU-2"): "note"}
    assert (await machine.state())[0] == "quarantined"
    await take(site.conn, beat(machine))
    await site.settled()
    assert await targets(machine) == {}
    assert (await machine.state())[0] == "active"


async def test_the_alert_of_one_agent_notifies_the_loop_at_once(site: Site) -> None:
    machine = await site.active()
    await take(site.conn, beat(machine))
    async with listening(site.db) as notified:
        await take(site.conn, beat(machine, health={"ok": True, "alerts": [alert("gpu_lost", blocks=True)]}))
    assert notified == [f"node:{machine.id}"]


async def test_the_alerts_of_many_agents_in_one_batch_notify_nobody(site: Site) -> None:
    machines = [await site.active() for _ in range(11)]
    await take(site.conn, *map(beat, machines))
    async with listening(site.db) as notified:
        alerts = {"ok": True, "alerts": [alert("gpu_lost", blocks=True)]}
        await take(site.conn, *(beat(machine, health=alerts) for machine in machines))
    assert notified == []
    await site.settled()
    assert {(await machine.state())[0] for machine in machines} == {"quarantined"}, "the next poll finds all of them"


async def test_the_first_heartbeat_after_a_silence_notifies_nobody(site: Site) -> None:
    machine = await site.active()
    await take(site.conn, beat(machine))
    await site.wait(timedelta(minutes=4))
    async with listening(site.db) as notified:
        await take(site.conn, beat(machine, health={"ok": True, "alerts": [alert("gpu_lost", blocks=True)]}))
    assert notified == []


async def test_a_heartbeat_that_reports_nothing_new_wakes_nobody(site: Site) -> None:
    machine = await site.active()
    await take(site.conn, beat(machine))
    await site.settled()
    async with site.conn.transaction():
        await take(site.conn, beat(machine))
        assert await site.conn.fetchval("SELECT count(*) FROM farrier.wakes") == 0
    before = await heard(machine)
    await site.wait(timedelta(seconds=1))
    await take(site.conn, beat(machine))
    assert await heard(machine) > before


async def test_it_is_recorded_whether_the_last_heartbeat_came_by_a_door(site: Site) -> None:
    machine = await site.active()
    by_door = "SELECT by_door FROM farrier.node_agents WHERE node_id = $1"
    assert not await site.conn.fetchval(by_door, machine.id)
    await take(site.conn, beat(machine))
    assert await site.conn.fetchval(by_door, machine.id)
    await machine.beat()
    assert not await site.conn.fetchval(by_door, machine.id)
    assert await verdicts(site.conn, beat(machine)) == ["taken"]
    assert await site.conn.fetchval(by_door, machine.id)


async def test_of_two_agents_with_one_key_the_later_boot_wins_and_the_node_gets_a_note(site: Site) -> None:
    machine = await site.active()
    old, new = uuid4(), uuid4()
    assert await verdicts(site.conn, beat(machine, old)) == ["taken"]
    assert await verdicts(site.conn, beat(machine, new)) == ["taken"]
    assert await machine.conditions() == {}, "a reboot is no second agent"
    for _ in range(2):
        assert await verdicts(site.conn, beat(machine, old), beat(machine, new)) == ["replaced", "taken"]
    await site.settled()
    assert await machine.conditions() == {"identity/agent": "note"}
    assert (await machine.state())[0] == "active"
    await machine.enroll()
    assert await machine.conditions() == {}, "an enrolment ends the note"


@pytest.mark.parametrize(("days", "direction"), [(1.1, "ahead of"), (-1.1, "behind")])
async def test_a_clock_a_day_off_is_a_note_and_loses_no_heartbeat(site: Site, days: float, direction: str) -> None:
    machine = await site.active()
    now = (await site.db.now()).timestamp()
    assert await verdicts(site.conn, beat(machine, clock=now + days * 86400)) == ["taken"]
    message = await site.conn.fetchval("SELECT message FROM farrier.node_conditions WHERE id = 'clock_offset'")
    assert message == f"the clock of the machine is more than a day {direction} the clock of the database"
    assert (await machine.state())[0] == "active"
    await take(site.conn, beat(machine, clock=now))
    assert await targets(machine) == {}


async def test_the_answer_says_what_the_agent_should_do_next(site: Site) -> None:
    machine = await site.active()
    (row,) = await take(site.conn, beat(machine, facts="1" * 64))
    assert (row["wait"], row["facts"], row["claim"]) == (30, True, False)
    facts = "SELECT farrier.put_facts(decode($1, 'hex'), $2, $3::jsonb)"
    assert await site.conn.fetchval(facts, digest_of(machine), "1" * 64, '{"kernel": "6.8"}') is None
    await machine.asked("drain")
    (row,) = await take(site.conn, beat(machine, facts="1" * 64))
    assert (row["facts"], row["claim"]) == (False, True)
    assert row["wait"] <= 5, "while a task is expected, the next heartbeat comes soon"


async def test_a_beat_with_the_fields_of_the_first_release_is_taken(site: Site) -> None:
    """A server for agents of an earlier release runs beside this schema: later fields are optional."""
    machine = await site.active()
    assert await verdicts(site.conn, {"key": digest_of(machine), "boot": str(BOOT), "health": {}}) == ["taken"]


async def test_facts_of_another_machine_are_refused_and_noted(site: Site) -> None:
    machine = await (await site.active()).asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await machine.asked("manage")
    facts = "SELECT farrier.put_facts(decode($1, 'hex'), $2, $3::jsonb)"
    refused = await site.conn.fetchval(facts, digest_of(machine), "1" * 64, '{"serial": "SN-9"}')
    assert "sn-9 instead of sn-1" in refused
    await site.settled()
    assert await machine.conditions() == {"identity/enrolment": "note"}
    assert (await machine.state())[0] == "active"


async def test_a_repeated_claim_returns_the_same_lease_while_it_lasts(site: Site) -> None:
    machine = await site.draining()
    key, other = uuid4(), uuid4()
    (first,) = await site.conn.fetch(CLAIM, digest_of(machine), key)
    (again,) = await site.conn.fetch(CLAIM, digest_of(machine), key)
    assert again == first
    assert await site.conn.fetch(CLAIM, digest_of(machine), other) == []
    await site.wait(timedelta(minutes=2))
    await machine.beat()
    (later,) = await site.conn.fetch(CLAIM, digest_of(machine), key)
    assert (later["attempt"], later["lease_token"] == first["lease_token"]) == (2, False)


async def test_evidence_is_stored_with_the_task_and_a_finish_without_it_is_recognisable(site: Site) -> None:
    proven, unproven = await site.draining(), await site.draining()
    evidence = {"by": "agent", "devices": [{"kind": "disk", "serial": "S1", "result": "erased"}]}
    stored = {}
    for machine, given in ((proven, json.dumps(evidence)), (unproven, None)):
        (task,) = await site.conn.fetch(CLAIM, digest_of(machine), uuid4())
        for _ in range(2):
            await site.conn.execute(FINISH, digest_of(machine), task["task"], task["lease_token"], given)
        row = await site.conn.fetchrow("SELECT status, evidence FROM farrier.node_tasks WHERE id = $1", task["task"])
        assert row is not None
        stored[machine.name] = (row["status"], row["evidence"] and json.loads(row["evidence"]))
    assert stored == {proven.name: ("succeeded", evidence), unproven.name: ("succeeded", None)}
