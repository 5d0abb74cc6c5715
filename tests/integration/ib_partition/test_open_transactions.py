"""No commit of the loop waits for a client's open transaction, for any call of the client and any partition.

A client acts on one partition and keeps its transaction open, while other partitions of the same batch run. A commit
that waited for the client would never end, because the client ends its transaction only after these runs.
"""

from __future__ import annotations

import pytest

from tests.support import pg
from tests.support.partitions import GUIDS, SITE, Fabric

HELD, OTHERS = "held", ("one", "two")
PORT, NEW_PORT = GUIDS[0], GUIDS[9]
WAKES_NOW = "; SET CONSTRAINTS ALL IMMEDIATE"  # any client may run deferred triggers before its COMMIT

JOIN = f"SELECT farrier.join_partition('held', '{NEW_PORT}', 'node-9')"
CHANGE = f"SELECT farrier.join_partition('held', '{PORT}', 'owner', NULL, 'limited')"
LEAVE = f"SELECT farrier.leave_partition('held', '{PORT}', 'owner')"
UPDATE = "SELECT farrier.resource_intent('ib_partition', 'held', 'update', '{\"service_level\": 3}')"
ACTS = {
    "joins": ("intents", JOIN),
    "joins, wakes now": ("intents", JOIN + WAKES_NOW),
    "joins again": ("intents", f"SELECT farrier.join_partition('held', '{PORT}', 'owner')"),
    "changes a membership": ("intents", CHANGE),
    "changes a membership, wakes now": ("intents", CHANGE + WAKES_NOW),
    "leaves": ("intents", LEAVE),
    "leaves, wakes now": ("intents", LEAVE + WAKES_NOW),
    "leaves without being there": ("intents", f"SELECT farrier.leave_partition('held', '{NEW_PORT}', 'nobody')"),
    "creates": (
        "intents",
        f"SELECT farrier.resource_intent('ib_partition', 'new', 'create', '{{\"site\": \"{SITE}\"}}')",
    ),
    "changes": ("intents", UPDATE),
    "changes, wakes now": ("intents", UPDATE + WAKES_NOW),
    "deletes": ("intents", "SELECT farrier.resource_intent('ib_partition', 'held', 'delete', '{\"drain\": true}')"),
    "lists members": ("reader", "SELECT * FROM farrier.partition_members('held')"),
    "lists": ("reader", "SELECT * FROM farrier.list_resources('ib_partition')"),
}
STAGES = ("provisioning", "ready, to add", "ready, to remove", "ready, to change", "deleting", "draining")


async def prepare(fabric: Fabric, stage: str) -> None:
    """Bring all three partitions to the beginning of the stage; afterwards nothing runs."""
    for number, name in enumerate((HELD, *OTHERS)):
        await fabric.create(name, pkey=0x10 + number)
        if stage == "provisioning":
            await fabric.join(PORT, "owner", name)
    if stage == "provisioning":
        return
    await fabric.settle()
    for name in (HELD, *OTHERS):
        if stage != "deleting":
            await fabric.join(PORT, "owner", name)
    if stage == "ready, to add":
        return
    await fabric.settle()
    if stage == "draining":
        for name in (HELD, *OTHERS):
            await fabric.ask("delete", name, drain=True)
        await fabric.settle()


async def ask(fabric: Fabric, stage: str, names: tuple[str, ...]) -> None:
    """Ask for the change of the stage, while the client's transaction is open."""
    for name in names:
        if stage in ("ready, to remove", "draining"):
            await fabric.leave(PORT, "owner", name)
        elif stage == "ready, to change":
            await fabric.ask("update", name, service_level=2)
        elif stage == "deleting":
            await fabric.ask("delete", name)


async def there(fabric: Fabric, names: tuple[str, ...]) -> set[tuple[str, str | None]]:
    """The states of the partitions and of their members."""
    rows = await fabric.conn.fetch(
        "SELECT p.state, m.state AS member FROM farrier.ib_partitions p LEFT JOIN farrier.ib_members m"
        " ON m.partition = p.id AND m.guid = $2 WHERE p.name = ANY ($1)",
        names,
        PORT,
    )
    return {(row["state"], row["member"]) for row in rows}


ARRIVED = {
    "provisioning": ("ready", "applied"),
    "ready, to add": ("ready", "applied"),
    "ready, to remove": ("ready", None),
    "ready, to change": ("ready", "applied"),
    "deleting": ("gone", None),
    "draining": ("gone", None),
}


@pytest.mark.matrix(keep=10)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ACTS)
async def test_the_loop_goes_on_beside_a_clients_open_transaction(every_fabric: Fabric, stage: str, name: str) -> None:
    fabric = every_fabric
    await prepare(fabric, stage)
    async with fabric.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        # The member is asked to leave before the client's statement, which then locks the member's row.
        early = stage in ("ready, to remove", "draining")
        if early:
            await ask(fabric, stage, (HELD,))
        await pg.act(client, *ACTS[name])
        late = early or "wakes now" in name  # requests for the held partition would wait for the client
        await ask(fabric, stage, OTHERS if late else (HELD, *OTHERS))
        async with fabric.running():
            await fabric.until_settled(OTHERS)
        assert await there(fabric, OTHERS) == {ARRIVED[stage]}
        await transaction.rollback()
    if late and not early:
        await ask(fabric, stage, (HELD,))
    await fabric.wait()
    assert await there(fabric, (HELD, *OTHERS)) == {ARRIVED[stage]}
    assert set(fabric.ledger.verdicts) <= {"conflict", "deferred", "locked"}, "no commit was given up"


async def test_leaving_an_ended_partition_succeeds_and_leaving_an_unknown_one_is_refused(
    every_fabric: Fabric,
) -> None:
    made = await every_fabric.ready()
    await every_fabric.asked("delete")
    for given in ("ib", str(made)):
        await every_fabric.leave(GUIDS[0], "node-1", given)
    with pytest.raises(pg.PostgresError, match="no ib partition is named 'other'"):
        await every_fabric.leave(GUIDS[0], "node-1", "other")
