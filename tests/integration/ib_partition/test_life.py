"""A partition's states: each edge by its real trigger, on a real database, the real loop and a simulated UFM."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from farrier.sim.faults import Broken, Fault
from farrier.sim.ufm.manager import Partition, Port
from tests.support import loop
from tests.support.partitions import GUIDS, KEY, SITE, Fabric

SOON = timedelta(seconds=6)


async def test_a_partition_is_made_in_ufm_with_its_parameters_and_then_ready(fabric: Fabric) -> None:
    made = await fabric.create(mtu_limit=4, rate_limit="200", service_level=3, ip_over_ib=False)
    await fabric.settle()
    found = fabric.manager.partitions[KEY]
    assert (found.mtu_limit, found.rate_limit, found.service_level, found.ip_over_ib) == (4, 200.0, 3, False)
    assert await fabric.history(made) == ["ready"]
    assert (await fabric.row(made))["fabric_name"] == "api_pkey_0x10"


async def test_omitted_parameters_are_the_defaults_of_ufm(fabric: Fabric) -> None:
    made = await fabric.ready()
    row = await fabric.row(made)
    assert (row["pkey"], row["mtu_limit"], row["rate_limit"], row["service_level"]) == (KEY, 2, "2.5", 0)


async def test_a_partition_that_ufm_has_as_required_is_read_and_not_changed(fabric: Fabric) -> None:
    made = await fabric.ready("ib", *GUIDS[:3])
    before = list(fabric.manager.changes)
    version = (await fabric.row(made))["version"]
    await fabric.wait()
    assert fabric.manager.changes == before
    assert (await fabric.row(made))["version"] == version
    assert (await fabric.outcome(made))["outcome"] == "do_nothing"


async def test_provisioning_to_error_to_ready_by_itself(fabric: Fabric) -> None:
    fabric.manager.refuses[KEY] = "no resources left"
    made = await fabric.create()
    await fabric.settle()
    assert await fabric.state(made) == "error"
    assert "no resources left" in (await fabric.row(made))["last_error"]
    await fabric.wait()
    assert await fabric.state(made) == "error"
    fabric.manager.refuses.clear()
    await fabric.wait()
    assert await fabric.history(made) == ["error", "ready"]
    assert (await fabric.row(made))["last_error"] is None


async def test_ready_to_error_and_back_by_an_update(fabric: Fabric) -> None:
    made = await fabric.ready()
    refusal = Fault(op="qos", status=400, body=b"rate not supported", content_type="text/plain", times=None)
    fabric.manager.faults.add(refusal)
    assert await fabric.asked("update", rate_limit="300") == ("accepted", "")
    assert await fabric.state(made) == "error"
    assert "rate not supported" in (await fabric.row(made))["last_error"]
    fabric.manager.faults.clear()
    assert await fabric.asked("update", rate_limit="100") == ("accepted", "")
    assert await fabric.history(made) == ["ready", "error", "ready"]
    assert fabric.manager.partitions[KEY].rate_limit == 100.0


async def test_ready_to_deleting_to_gone_deletes_the_partition_in_ufm(fabric: Fabric) -> None:
    made = await fabric.ready()
    assert await fabric.asked("delete") == ("accepted", "")
    assert await fabric.history(made) == ["ready", "deleting", "gone"]
    assert KEY not in fabric.manager.partitions
    assert await fabric.taken() == []
    assert (await fabric.row(made))["ended_at"] is not None


async def test_error_to_deleting(fabric: Fabric) -> None:
    fabric.manager.refuses[KEY] = "no"
    made = await fabric.create()
    await fabric.settle()
    assert (await fabric.asked("delete"))[0] == "accepted"
    await fabric.wait()
    assert await fabric.history(made) == ["error", "deleting", "gone"]


async def test_provisioning_to_deleting_without_ufm_if_no_request_was_sent(fabric: Fabric) -> None:
    fabric.manager.faults.add(Fault(status=500, times=None))
    made = await fabric.create()
    await fabric.settle()
    assert await fabric.state(made) == "provisioning"
    assert (await fabric.asked("delete"))[0] == "accepted"
    assert await fabric.history(made) == ["deleting", "gone"]
    assert await fabric.taken() == []


async def test_a_freed_number_goes_to_the_next_partition_and_is_freed_once(fabric: Fabric) -> None:
    first = await fabric.ready("first")
    assert (await fabric.asked("delete", "first"))[0] == "accepted"
    again = await fabric.ready("second")
    assert (await fabric.row(first))["pkey"] == (await fabric.row(again))["pkey"] == KEY
    assert await fabric.taken() == [KEY]
    await fabric.wait()
    assert await fabric.state(again) == "ready"


async def test_a_number_is_kept_as_long_as_ufm_has_it(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.asynchronous = True
    await fabric.asked("delete")
    assert await fabric.state(made) == "deleting"
    assert await fabric.taken() == [KEY]
    fabric.manager.settle()
    await fabric.wait(SOON)
    await fabric.wait()
    assert await fabric.state(made) == "gone"
    assert await fabric.taken() == []


async def test_a_number_is_kept_while_ufm_may_still_make_accepted_changes(fabric: Fabric) -> None:
    fabric.manager.asynchronous = True
    made = await fabric.create()
    await fabric.join(GUIDS[0])
    await fabric.settle()
    await fabric.leave(GUIDS[0])
    await fabric.asked("delete")
    assert await fabric.state(made) == "deleting" and await fabric.taken() == [KEY]
    assert "ends when another read confirms this" in (await fabric.outcome(made))["reason"]
    fabric.manager.settle()
    assert GUIDS[0] in fabric.ports
    fabric.manager.asynchronous = False
    await fabric.wait(timedelta(seconds=21))
    assert KEY not in fabric.manager.partitions
    assert await fabric.state(made) == "gone" and await fabric.taken() == []


async def test_a_key_that_appears_between_two_reads_restarts_the_proof_of_absence(fabric: Fabric) -> None:
    fabric.manager.refuses[KEY] = "no"
    made = await fabric.create()
    await fabric.settle()
    await fabric.asked("delete")
    fabric.manager.refuses.clear()
    fabric.manager.partitions[KEY] = Partition("late")
    fabric.manager.asynchronous = True
    await fabric.wait(timedelta(seconds=21))
    assert (await fabric.row(made))["absent_at"] is None
    fabric.manager.settle()
    await fabric.wait(SOON)
    assert await fabric.state(made) == "deleting" and await fabric.taken() == [KEY]
    await fabric.wait(timedelta(seconds=21))
    assert await fabric.state(made) == "gone"


async def test_a_key_that_ufm_already_has_is_not_claimed(fabric: Fabric) -> None:
    theirs = Partition("somebody's", ports={GUIDS[0]: Port()})
    fabric.manager.partitions[KEY] = theirs
    made = await fabric.create()
    await fabric.settle()
    assert await fabric.state(made) == "provisioning"
    outcome = await fabric.outcome(made)
    assert outcome["outcome"] == "wait" and "somebody's" in outcome["reason"] and "0x10" in outcome["reason"]
    assert (await fabric.asked("delete"))[0] == "accepted"
    assert await fabric.state(made) == "gone"
    assert fabric.manager.partitions[KEY] is theirs
    assert not fabric.manager.changes


async def test_a_key_that_is_freed_in_ufm_is_then_claimed(fabric: Fabric) -> None:
    fabric.manager.partitions[KEY] = Partition("somebody's")
    made = await fabric.create()
    await fabric.settle()
    del fabric.manager.partitions[KEY]
    await fabric.wait()
    assert await fabric.state(made) == "ready"


async def test_the_partition_waits_for_changes_that_ufm_makes_later(fabric: Fabric) -> None:
    fabric.manager.asynchronous = True
    made = await fabric.create()
    await fabric.settle()
    assert await fabric.state(made) == "provisioning"
    assert "has not made all accepted changes yet" in (await fabric.outcome(made))["reason"]
    fabric.manager.settle()
    await fabric.wait(SOON)
    assert await fabric.state(made) == "ready"
    assert (await fabric.row(made))["asked_at"] is None


async def test_a_change_that_ufm_accepts_and_never_makes_is_retried_with_back_off_then_an_error(fabric: Fabric) -> None:
    fabric.manager.knows_names = False
    await fabric.named()
    made = await fabric.create("tenant-a")
    await fabric.join(GUIDS[0], partition="tenant-a")
    await fabric.settle()
    before = len(fabric.manager.changes)
    for _ in range(12):
        await fabric.wait(timedelta(seconds=5))
    assert 2 <= len(fabric.manager.changes) - before <= 5
    told = "its name is 'api_pkey_0x10', not 'tenant-a'"
    assert told in (await fabric.outcome(made))["reason"]
    assert await fabric.state(made) == "provisioning"
    for _ in range(5):
        await fabric.wait()
    assert await fabric.state(made) == "error" and told in (await fabric.row(made))["last_error"]
    fabric.manager.knows_names = True
    await fabric.wait()
    assert await fabric.history(made) == ["error", "ready"]


@pytest.mark.parametrize(
    ("op", "action", "words"),
    [
        ("qos", "update", "mtu_limit is 2, not 4"),
        ("add", "join", f"missing members: {GUIDS[1]}"),
        ("remove", "leave", f"members to be removed: {GUIDS[0]}"),
        ("set", "limit", f"whose properties differ from the configured properties: {GUIDS[0]}"),
    ],
)
async def test_changes_that_ufm_accepts_and_does_not_make_are_reported(
    fabric: Fabric, op: str, action: str, words: str
) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    fabric.manager.faults.add(Fault(op=op, status=200, times=None, body=b"{}", content_type="application/json"))
    match action:
        case "update":
            await fabric.asked("update", mtu_limit=4)
        case "join":
            await fabric.join(GUIDS[1], "node-2")
        case "leave":
            await fabric.leave(GUIDS[0])
        case _:
            await fabric.join(GUIDS[0], membership="limited")
    for _ in range(6):
        await fabric.wait()
    assert await fabric.history(made) == ["ready", "error"]
    assert words in (await fabric.row(made))["last_error"]
    fabric.manager.faults.clear()
    await fabric.wait()
    await fabric.wait()  # UFM drops the key with its last port, so the key is made again
    assert await fabric.history(made) == ["ready", "error", "ready"]


async def test_a_partition_without_a_site_reports_that_and_can_be_deleted(fabric: Fabric) -> None:
    await fabric.conn.execute("SELECT farrier.set_pool('pkey', 1, 10)")
    request = await fabric.ask("create")
    made = await fabric.conn.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", request)
    await fabric.settle()
    assert "has no site" in (await fabric.outcome(made))["reason"]
    assert (await fabric.asked("delete"))[0] == "accepted"
    assert await fabric.state(made) == "gone"


async def test_a_partition_whose_site_has_no_ufm_waits_and_reports_that(fabric: Fabric) -> None:
    await fabric.fabrics.use({})
    made = await fabric.create()
    await fabric.settle()
    assert await fabric.state(made) == "provisioning"
    assert (await fabric.outcome(made))["reason"] == f"site {SITE} has no [ufm] in this controller's settings"
    await fabric.fabrics.use(fabric.settings)
    await fabric.wait()
    assert await fabric.state(made) == "ready"


async def test_partitions_of_one_ufm_share_a_reading(fabric: Fabric) -> None:
    await fabric.conn.execute("SELECT farrier.set_pool($1, 1, 32766)", f"pkey:{SITE}")
    for number in range(60):
        await fabric.create(f"ib-{number}")
    await fabric.settle()
    assert await fabric.conn.fetchval("SELECT count(*) FROM farrier.ib_partitions WHERE state = 'ready'") == 60
    before = len(fabric.manager.requests)
    assert await fabric.wait() == 60
    assert len(fabric.manager.requests) - before == 2


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("broken", [Broken.DROP, Broken.TRUNCATE, Broken.GARBLE])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_partition_reaches_every_state_although_each_response_breaks_once(
    fabric: Fabric, broken: Broken, times: int
) -> None:
    for op in ("create", "add", "qos", "set", "remove", "delete"):
        fabric.manager.faults.add(Fault(op=op, broken=broken, times=times))
    made = await fabric.create()
    await _until(fabric, made, "ready")
    await fabric.join(GUIDS[0], "node-1")
    await fabric.join(GUIDS[1], "node-2", membership="limited")
    await _until_settled(fabric)
    assert fabric.ports == {GUIDS[0]: "full", GUIDS[1]: "limited"}
    await fabric.join(GUIDS[0], "node-1", membership="limited")
    await _until_settled(fabric)
    assert fabric.ports == {GUIDS[0]: "limited", GUIDS[1]: "limited"}
    await fabric.asked("update", mtu_limit=4)
    await fabric.leave(GUIDS[1], "node-2")
    await _until_settled(fabric)
    assert fabric.ports == {GUIDS[0]: "limited"} and fabric.manager.partitions[KEY].mtu_limit == 4
    await fabric.leave(GUIDS[0], "node-1")
    await fabric.ask("delete")
    await _until(fabric, made, "gone")
    assert KEY not in fabric.manager.partitions and await fabric.taken() == []
    assert await fabric.history(made) == ["ready", "deleting", "gone"]


async def _until(fabric: Fabric, id_: int, state: str) -> None:
    with anyio.fail_after(loop.PATIENCE):
        while await fabric.state(id_) != state:
            await fabric.wait()


async def _until_settled(fabric: Fabric) -> None:
    """Let periods pass until one of them sends UFM no change."""
    await fabric.settle()
    with anyio.fail_after(loop.PATIENCE):
        while True:
            before = len(fabric.manager.changes)
            await fabric.wait()
            if len(fabric.manager.changes) == before:
                return
