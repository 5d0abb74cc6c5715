"""Outages of UFM in every state and of every kind: the partition keeps its state, and goes on after the outage."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice.explanation import explain_resource
from farrier.model.node.limits import Limits
from farrier.model.views.census import Census, Rules
from farrier.sim.faults import Broken, Fault
from farrier.sim.ufm.manager import Partition, Port
from tests.support.partitions import GUIDS, KEY, SITE, Fabric

DOWN = {
    "500": Fault(status=500, times=None),
    "503 of a proxy": Fault(status=503, body=b"<html>", times=None),
    "not authorized": Fault(status=401, times=None),
    "forbidden": Fault(status=403, body=b"no", content_type="text/plain", times=None),
    "hangs": Fault(broken=Broken.HANG, times=None),
    "hangs up": Fault(broken=Broken.DROP, times=None),
    "page": Fault(broken=Broken.GARBLE, times=None),
    "cut": Fault(op="list", broken=Broken.TRUNCATE, times=None),
    "ten megabytes": Fault(body=b"{" + b" " * 10_000_000 + b"}", content_type="application/json", times=None),
    "404 of a proxy": Fault(status=404, body=b"<html>", times=None),
    "404 in text": Fault(status=404, body=b"404 page not found\n", content_type="text/plain", times=None),
    "404 in JSON": Fault(
        status=404, body=b'{"message": "no Route matched"}', content_type="application/json", times=None
    ),
    "404 to readings": Fault(method="GET", status=404, body=b"not found", content_type="text/plain", times=None),
}
every_way = pytest.mark.parametrize("way", DOWN)
# UFM is asked for a single partition, and not for a list, when the partition is made or deleted.
every_way_but_lists = pytest.mark.parametrize("way", [way for way, fault in DOWN.items() if fault.op is None])
# The timeout of requests that hang, which passes in real time.
IMPATIENT = timedelta(seconds=0.2)


async def go_down(fabric: Fabric, way: str) -> None:
    fault = DOWN[way]
    if fault.broken is Broken.HANG:
        await fabric.have_patience(IMPATIENT)
    fields = {name: getattr(fault, name) for name in fault.__struct_fields__}
    fabric.manager.faults.add(Fault(**fields | {"struck": 0}))


async def come_back(fabric: Fabric) -> None:
    fabric.manager.faults.clear()
    await fabric.have_patience(None)
    await fabric.wait()
    await fabric.wait()


@pytest.mark.matrix(keep=3)
@every_way
async def test_a_ready_partition_waits_during_an_outage_and_loses_nothing(fabric: Fabric, way: str) -> None:
    made = await fabric.ready("ib", *GUIDS[:2])
    await go_down(fabric, way)
    await fabric.wait()
    await fabric.join(GUIDS[2], "node-3")
    await fabric.leave(GUIDS[0], "node-1")
    await fabric.asked("update", mtu_limit=4)
    await fabric.wait()
    assert await fabric.history(made) == ["ready"]
    outcome = await fabric.outcome(made)
    assert (outcome["outcome"], outcome["error"]) == ("wait", "ufm") and f"UFM of site {SITE}" in outcome["reason"]
    assert await fabric.members() == {GUIDS[0]: "leaving", GUIDS[1]: "applied", GUIDS[2]: "pending"}
    await come_back(fabric)
    assert fabric.ports == {GUIDS[1]: "full", GUIDS[2]: "full"} and fabric.manager.partitions[KEY].mtu_limit == 4
    assert await fabric.members() == {GUIDS[1]: "applied", GUIDS[2]: "applied"}
    assert await fabric.history(made) == ["ready"]


@pytest.mark.matrix(keep=3)
@every_way_but_lists
async def test_a_new_partition_is_made_after_the_outage(fabric: Fabric, way: str) -> None:
    await go_down(fabric, way)
    made = await fabric.create()
    await fabric.settle()
    await fabric.wait()
    assert await fabric.state(made) == "provisioning"
    assert (await fabric.outcome(made))["outcome"] == "wait"
    await come_back(fabric)
    assert await fabric.history(made) == ["ready"]


@pytest.mark.matrix(keep=3)
@every_way_but_lists
async def test_a_partition_in_deletion_keeps_its_number_during_the_outage(fabric: Fabric, way: str) -> None:
    made = await fabric.ready()
    await go_down(fabric, way)
    await fabric.asked("delete")
    await fabric.wait()
    assert await fabric.state(made) == "deleting"
    assert await fabric.taken() == [KEY]
    await come_back(fabric)
    assert await fabric.history(made) == ["ready", "deleting", "gone"]
    assert await fabric.taken() == []


@pytest.mark.matrix(keep=3)
@every_way
async def test_a_partition_that_ufm_refused_stays_in_error_until_ufm_accepts_it(fabric: Fabric, way: str) -> None:
    fabric.manager.refuses[KEY] = "no"
    made = await fabric.create()
    await fabric.settle()
    await go_down(fabric, way)
    await fabric.wait()
    assert await fabric.history(made) == ["error"]
    fabric.manager.refuses.clear()
    await come_back(fabric)
    assert await fabric.history(made) == ["error", "ready"]


@pytest.mark.matrix(keep=3)
@every_way_but_lists
async def test_a_drain_goes_on_after_the_outage(fabric: Fabric, way: str) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    await fabric.asked("delete", drain=True)
    await go_down(fabric, way)
    await fabric.leave(GUIDS[0])
    await fabric.wait()
    assert await fabric.state(made) == "deleting"
    await come_back(fabric)
    assert await fabric.history(made) == ["ready", "deleting", "gone"]


async def test_a_404_for_a_single_key_neither_deletes_nor_claims_the_key(fabric: Fabric) -> None:
    made = await fabric.ready()
    theirs = Partition("somebody's", ports={GUIDS[9]: Port()})
    fabric.manager.partitions[KEY + 1] = theirs
    route = Fault(op="pkey", status=404, body=b"404 page not found\n", content_type="text/plain", times=None)
    fabric.manager.faults.add(route)
    other = await fabric.create("other", pkey=KEY + 1)
    await fabric.asked("delete")
    for _ in range(3):
        await fabric.wait()
    assert await fabric.state(made) == "gone" and KEY not in fabric.manager.partitions
    assert await fabric.state(other) == "provisioning" and "somebody's" in (await fabric.outcome(other))["reason"]
    assert fabric.manager.partitions[KEY + 1] is theirs and list(theirs.ports) == [GUIDS[9]]


async def test_an_unreachable_ufm_is_counted_and_reported_with_its_site(fabric: Fabric) -> None:
    made = await fabric.ready()
    await go_down(fabric, "forbidden")
    await fabric.wait()
    await fabric.wait(timedelta(minutes=5))
    failing = (await census(fabric)).failing
    assert [(each.kind, each.error, each.count) for each in failing] == [("ib_partition", "ufm", 1)]
    page = await PostgresQueries(fabric.pool).resource("ib_partition", "ib")
    said = explain_resource(page.rows[0], page.now, Limits())
    assert f"UFM of site {SITE} cannot be reached: forbidden" in said.reason
    assert any("ufm" in error for error in said.errors) and "fix the cause that the reason names" in said.advice
    await come_back(fabric)
    assert (await census(fabric)).failing == () and "error" not in await fabric.outcome(made)


async def census(fabric: Fabric) -> Census:
    minute = timedelta(minutes=1)
    rules = Rules(limits=Limits(), offline_after=minute, observation_ttl=minute, name_at_most=10)
    return await PostgresQueries(fabric.pool).census(rules)


async def test_a_site_without_ufm_is_counted_although_its_partitions_are_ready(fabric: Fabric) -> None:
    made = await fabric.ready()
    await fabric.fabrics.use({})
    await fabric.wait()
    outcome = await fabric.outcome(made)
    assert (outcome["error"], outcome["reason"]) == ("ufm", f"site {SITE} has no [ufm] in this controller's settings")


async def test_the_outcome_of_a_waiting_partition_does_not_change(fabric: Fabric) -> None:
    made = await fabric.ready()
    await go_down(fabric, "500")
    await fabric.wait()
    query = "SELECT at FROM farrier.outcomes WHERE kind = 'ib_partition' AND id = $1"
    first = await fabric.conn.fetchval(query, made)
    await fabric.wait()
    assert await fabric.conn.fetchval(query, made) == first


async def test_partitions_that_wait_for_one_ufm_share_its_request(fabric: Fabric) -> None:
    for number in range(10):
        await fabric.ready(f"ib-{number}")
    await go_down(fabric, "not authorized")
    before = len(fabric.manager.requests)
    await fabric.wait()
    assert len(fabric.manager.requests) - before == 1


# --- a process that dies between a change in UFM and its commit


async def test_a_partition_made_just_before_a_crash_is_recognised_and_not_made_again(fabric: Fabric) -> None:
    made = await fabric.create()
    await fabric.conn.execute(
        "UPDATE farrier.ib_partitions SET claimed_at = farrier.now(), claimed_in = 'http://ufm.test'"
    )
    await fabric.crash(made)
    assert KEY in fabric.manager.partitions
    await fabric.settle()
    assert await fabric.history(made) == ["ready"]
    assert fabric.manager.changes == ["create"]


async def test_a_number_is_claimed_before_anything_is_sent(fabric: Fabric) -> None:
    made = await fabric.create()
    await fabric.crash(made)
    assert not fabric.manager.changes
    assert (await fabric.row(made))["claimed_at"] is None
    await fabric.settle()
    assert await fabric.history(made) == ["ready"]


async def test_members_added_just_before_a_crash_are_not_added_again(fabric: Fabric) -> None:
    made = await fabric.ready("ib", GUIDS[0])
    await fabric.join(GUIDS[1], "node-2")
    await fabric.leave(GUIDS[0])
    await fabric.crash(made)
    assert fabric.ports == {GUIDS[1]: "full"}
    before = len(fabric.manager.changes)
    await fabric.settle()
    assert len(fabric.manager.changes) == before
    assert await fabric.members() == {GUIDS[1]: "applied"}


async def test_a_key_deleted_just_before_a_crash_frees_its_number_once(fabric: Fabric) -> None:
    made = await fabric.ready()
    fabric.manager.asynchronous = True
    await fabric.asked("delete")
    fabric.manager.asynchronous = False
    fabric.manager.settle()
    await fabric.crash(made)
    assert KEY not in fabric.manager.partitions and await fabric.taken() == [KEY]
    await fabric.wait()
    await fabric.wait()
    assert await fabric.state(made) == "gone" and await fabric.taken() == []
