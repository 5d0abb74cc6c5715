"""No commit of the loop waits for a client's open transaction, for any call of the client and any segment.

A client acts on one segment and keeps its transaction open, while other segments of the same batch run. A commit that
waited for the client would never end, because the client ends its transaction only after these runs.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support import pg, segments
from tests.support.segments import Lan

HELD, OTHERS = "held", ("one", "two")
DRAINING, DB_DELETE = "deleting/drain_allocated_ips", "deleting/db_delete"
WAKES_NOW = "SET CONSTRAINTS ALL IMMEDIATE"  # any client may run deferred triggers before its COMMIT

# The calls of clients, each with its role. In some stages `owner` holds an address of each segment.
ACTS = {
    "allocates": ("intents", "SELECT farrier.allocate_address('held', 'me')"),
    "allocates again": ("intents", "SELECT farrier.allocate_address('held', 'owner')"),
    "allocates an address": ("intents", "SELECT farrier.allocate_address('held', 'me', '10.0.0.77')"),
    "gives back": ("intents", "SELECT farrier.release_address('held', '10.0.0.1', 'owner')"),
    "gives back, wakes now": ("intents", f"SELECT farrier.release_address('held', '10.0.0.1', 'owner'); {WAKES_NOW}"),
    "gives nothing back": ("intents", "SELECT farrier.release_address('held', '10.0.0.99', 'nobody')"),
    "takes and gives back": (
        "intents",
        "SELECT farrier.release_address('held', farrier.allocate_address('held', 'me'), 'me')",
    ),
    "creates": (
        "intents",
        (
            "SELECT farrier.resource_intent('network_segment', 'new', 'create',"
            ' \'{"site": "ams", "prefixes": ["10.9.0.0/24"]}\')'
        ),
    ),
    "changes": ("intents", "SELECT farrier.resource_intent('network_segment', 'held', 'update', '{\"mtu\": 2000}')"),
    "changes, wakes now": (
        "intents",
        f"SELECT farrier.resource_intent('network_segment', 'held', 'update', '{{\"mtu\": 2000}}'); {WAKES_NOW}",
    ),
    "deletes": ("intents", "SELECT farrier.resource_intent('network_segment', 'held', 'delete', '{\"drain\": true}')"),
    "wakes": ("intents", "SELECT farrier.enqueue('network_segment', 1)"),
    "lists addresses": ("reader", "SELECT * FROM farrier.list_addresses('held')"),
    "lists": ("reader", "SELECT * FROM farrier.list_resources('network_segment')"),
    "shows": (
        "reader",
        "SELECT * FROM farrier.show_resources('network_segment', NULL, '{}', '{}', true, '', 0, 100)",
    ),
}
# The stage that a segment is in, and the state to which one or two runs take it.
STAGES = {
    "provisioning": "ready",
    "ready, to change": "ready",
    "ready, to grow": "ready",
    "ready, to delete": "gone",
    "draining, used": DRAINING,
    "draining": "gone",
    "ending": "gone",
}
# Acts that may change addresses. A deletion is decided on addresses, so its run beside such an act is repeated a second
# later.
ADDRESSES = {"allocates", "allocates an address", "gives back", "gives back, wakes now", "gives nothing back"}
HOLDS = {("ready, to delete", act) for act in ADDRESSES | {"allocates again", "takes and gives back"}}
HOLDS_SITE = {("ready, to grow", "creates")}


async def prepare(lan: Lan, stage: str) -> None:
    """Bring all three segments to the beginning of the stage; afterwards nothing runs."""
    await lan.conn.execute("SELECT farrier.set_pool('vlan:ams', 100, 199), farrier.set_pool('vni', 1, 99)")
    names = (HELD, *OTHERS)
    for number, name in enumerate(names):
        await lan.create(name, f"10.0.{number}.0/24")
    if stage == "provisioning":
        return
    await lan.settle()
    if stage == "draining, used":
        for name in names:
            await lan.take("owner", segment=name)
            await lan.ask(name, "delete", drain=True)
        await lan.settle()
        await lan.advance(timedelta(seconds=40))
    states = {"draining": [DRAINING], "ending": [DRAINING, DB_DELETE]}.get(stage, [])
    for state in states:
        await lan.conn.execute("UPDATE farrier.network_segments SET state = $1", state)
    if states:
        await lan.conn.execute("SELECT farrier.enqueue('network_segment', id) FROM farrier.network_segments")


async def ask(lan: Lan, stage: str, names: tuple[str, ...]) -> None:
    """Insert the intents of the stage, while the client's transaction is open."""
    for number, name in enumerate(names):
        if stage == "ready, to change":
            await lan.ask(name, "update", mtu=9000)
        elif stage == "ready, to grow":
            await lan.ask(name, "update", add_prefixes=[f"10.{len(names)}.{number}.0/24"])
        elif stage == "ready, to delete":
            await lan.ask(name, "delete")


async def states(lan: Lan) -> dict[str, str]:
    rows = await lan.conn.fetch("SELECT name, state FROM farrier.network_segments WHERE name <> 'new'")
    return {row["name"]: row["state"] for row in rows}


@pytest.mark.matrix(keep=12)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ACTS)
async def test_the_loop_goes_on_beside_a_clients_open_transaction(lan: Lan, stage: str, name: str) -> None:
    await prepare(lan, stage)
    wakes_now = "wakes now" in name  # another request for the held segment would wait for the client
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await pg.act(client, *ACTS[name])
        await ask(lan, stage, OTHERS if wakes_now else (HELD, *OTHERS))
        async with lan.running():
            if (stage, name) in HOLDS_SITE:
                await lan.ledger.until(lambda: "deferred" in lan.ledger.verdicts)
            else:
                await lan.until_settled(OTHERS)
                if not wakes_now and (stage, name) not in HOLDS:
                    await lan.until_settled((HELD,))
        if (stage, name) not in HOLDS_SITE:
            assert {other: (await states(lan))[other] for other in OTHERS} == dict.fromkeys(OTHERS, STAGES[stage])
        await transaction.rollback()
    if wakes_now:
        await ask(lan, stage, (HELD,))
    await lan.advance(timedelta(seconds=1))
    await lan.settle()
    assert await states(lan) == dict.fromkeys((HELD, *OTHERS), STAGES[stage])
    assert not lan.ledger.errors
    assert set(lan.ledger.verdicts) <= {"conflict", "deferred"}, "no commit was given up"


async def test_numbers_older_than_the_pool_are_taken_into_it_without_delaying_their_segment(
    lan: Lan,
) -> None:
    old = await lan.ready("old", "10.0.0.0/24", vlan=100, vni=7)
    await lan.conn.execute("SELECT farrier.set_pool('vlan:ams', 100, 199), farrier.set_pool('vni', 7, 99)")
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await segments.ask(client, "new", "create", site="ams", prefixes=["10.0.1.0/24"])
        change, delete = await lan.ask("old", "update", mtu=9000), await lan.ask("old", "delete")
        await lan.settle()
        assert [await lan.answer(request) for request in (change, delete)] == [("accepted", "")] * 2
        assert await lan.state(old) == "gone"
        await transaction.commit()
    await lan.settle()
    row = await lan.row("SELECT * FROM farrier.network_segments WHERE name = 'new'")
    assert (row["vlan"], row["vni"]) == (101, 8)
    await lan.ask("new", "delete")
    await lan.settle()
    row = await lan.segment(await lan.create("next", "10.0.1.0/24"))
    assert (row["vlan"], row["vni"]) == (100, 7)


async def test_a_number_older_than_the_pool_is_freed_when_its_segment_ends(lan: Lan) -> None:
    await lan.ready("old", "10.0.0.0/24", vlan=100, vni=7)
    await lan.conn.execute("SELECT farrier.set_pool('vlan:ams', 100, 199), farrier.set_pool('vni', 7, 99)")
    await lan.create("new", "10.0.1.0/24")
    await lan.ask("old", "delete")
    await lan.settle()
    row = await lan.segment(await lan.create("next", "10.0.2.0/24"))
    assert (row["vlan"], row["vni"]) == (100, 7)
