"""Actions on nodes, segments, partitions, UFM and processes in any order: no address or membership is held by two
nodes, held without a right to it, or lost; when all nodes are deleted, all addresses and memberships are free.

Hypothesis generates the scripts, for two nodes and a segment with room for three besides the gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farrier.model.node.snapshot import TaskType
from farrier.sim.faults import Fault
from farrier.sim.maas import Region, Status
from farrier.sim.ufm import Manager
from tests.support import onboarded, pg, tenancy
from tests.support.onboarded import QUICK
from tests.support.site import HOUR, MINUTE, SECOND, Machine
from tests.support.tenancy import PARTITION, SEGMENT, Tenancy
from tests.support.wire import Blow, Nth, Wire

# Another process takes the shards over after this time of the database's clock.
LEASE = 16 * SECOND
NODES = 2
OF_A_DELETED_NODE = {"FR401", "FR403", "FR404", "FR410"}
OF_A_NAME_THAT_IS_TAKEN = "23505"
HOLDS = ("segment_addresses", "ib_members", "node_uses", "node_ib_ports")


class Life:
    """Nodes, and the process that runs them. After this process dies, another process takes them over."""

    def __init__(self, db: pg.Database, stack: AsyncExitStack) -> None:
        self.db = db
        self.stack = stack
        self.wire = Wire(Region(durations=QUICK))
        self.manager = Manager()
        self.nodes: list[Machine] = []
        self.lan: Tenancy

    async def process(self) -> None:
        await self.stack.aclose()
        opened = tenancy.opened(self.db, wire=self.wire, manager=self.manager, crash=True)
        self.lan = await self.stack.enter_async_context(opened)
        for node in self.nodes:
            node.site = self.lan.site

    async def dies(self) -> None:
        """The process dies at once, and another takes over when the lease has expired."""
        await self.process()
        self.wire.let_go()
        self.wire.region.advance(LEASE)
        await self.db.advance(LEASE)
        await self.lan.site.settled()

    async def make(self) -> None:
        await self.lan.segment("10.9.0.0/29", gateways=["10.9.0.1"], reserved_last=3)
        await self.lan.partition()


Act: TypeAlias = Callable[[Life], Awaitable[object]]


def named(act: Act, *words: object) -> Act:
    """Give an act a name that is readable in a failing script."""
    act.__qualname__ = " ".join(map(str, words))
    return act


def asks(number: int, action: str, **params: Any) -> Act:
    async def ask(it: Life) -> None:
        await it.nodes[number].ask(action, **params)

    return named(ask, "asks", number, action, params)


def waits(by: timedelta) -> Act:
    async def wait(it: Life) -> None:
        await it.lan.site.wait(by)

    return named(wait, "waits", by)


def strikes(number: int) -> Act:
    """The process dies in the change in MAAS with this number, counted from now on."""

    async def strike(it: Life) -> None:
        it.wire.strike = Nth(number, Blow.HELD_AFTER)

    return named(strike, "strikes", number)


async def goes_on(it: Life) -> None:
    """Let time pass for MAAS and UFM, then let the agents enroll and carry out their tasks."""
    for _ in range(4):
        await it.lan.site.wait(MINUTE)
    for node in it.nodes:
        await enrols(node)
    for node in it.nodes:
        for _ in range(2):
            await works(node)


async def enrols(node: Machine) -> None:
    machine = node.site.maas.region.machines.get(await onboarded.maas_id(node) or "")
    if machine is not None and machine.status is Status.DEPLOYED and machine.user_data:
        try:
            await node.enroll(onboarded.token_of(machine))
            await node.beat()
        except pg.PostgresError as error:
            if error.sqlstate not in OF_A_DELETED_NODE:
                raise


async def works(node: Machine) -> None:
    for type_ in TaskType:
        try:
            lease = await node.claim(type_)
        except pg.PostgresError as error:
            if error.sqlstate not in OF_A_DELETED_NODE:
                raise
            return
        if lease is not None:
            await node.end(lease)


async def ufm_fails(it: Life) -> None:
    it.manager.faults.add(Fault(status=500, times=None))


async def ufm_answers(it: Life) -> None:
    it.manager.faults.clear()


async def segment_goes(it: Life) -> None:
    await it.lan.asked("network_segment", SEGMENT, "delete", drain=True)


async def partition_goes(it: Life) -> None:
    await it.lan.asked("ib_partition", PARTITION, "delete", drain=True)


async def made_again(it: Life) -> None:
    await it.make()


async def stranger_tries_the_port(it: Life) -> None:
    """Another owner joins the partition with the port, if that is free, and leaves again."""
    async with it.db.connect() as conn:
        port = "0002c903000e0001"
        await conn.execute("SELECT farrier.join_partition($1, $2, 'vm-9')", PARTITION, port)
        await it.lan.site.settled()
        await conn.execute("SELECT farrier.leave_partition($1, $2, 'vm-9')", PARTITION, port)


async def dies(it: Life) -> None:
    await it.dies()


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("onboard", {"mode": "deploy"}),
    ("onboard", {"mode": "deploy"}),
    ("cancel", {}),
    ("restart_clean", {}),
    ("rerun", {}),
    ("retry_stage", {}),
    ("mark_manual_intervention_required", {}),
    ("delete", {}),
    ("decommission", {"mode": "full_decommission", "leave_on": True}),
    ("decommission", {"mode": "reimage"}),
    ("decommission", {"mode": "reimage", "retire": True}),
    ("decommission", {"mode": "soft_reset"}),
]
ACTS = st.one_of(
    st.just(goes_on),
    st.sampled_from([asks(number, action, **params) for number in range(NODES) for action, params in REQUESTS]),
    st.sampled_from([waits(SECOND), waits(31 * SECOND), waits(2 * MINUTE), waits(HOUR)]),
    st.sampled_from([ufm_fails, ufm_answers, segment_goes, partition_goes, made_again, stranger_tries_the_port]),
    st.sampled_from([dies, strikes(1), strikes(2)]),
)


@pytest.mark.full
@pytest.mark.timeout(180)  # takes some 30 s of a processor, which other tests may use, too
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(begins=st.integers(0, 2), script=st.lists(ACTS, min_size=4, max_size=10))
async def test_no_address_or_membership_is_held_twice_or_lost(
    pg_server: pg.Server, begins: int, script: list[Act]
) -> None:
    async with pg_server.database() as db, AsyncExitStack() as stack:
        it = Life(db, stack)
        await it.process()
        await it.make()
        it.nodes = [await it.lan.node() for _ in range(NODES)]
        for node in it.nodes[:begins]:
            await happens(it, asks(it.nodes.index(node), "onboard", mode="deploy"))
            await happens(it, goes_on)
        for act in script:
            await happens(it, act)
        await all_goes(it)


async def happens(it: Life, act: Act) -> None:
    try:
        await act(it)
    except pg.PostgresError as error:
        if error.sqlstate not in OF_A_DELETED_NODE | {"FR409", OF_A_NAME_THAT_IS_TAKEN}:
            raise
        await it.lan.site.settled()
    if it.lan.site.is_held:
        await it.dies()
    assert not await it.lan.wrong()


async def all_goes(it: Life) -> None:
    """End all faults, delete the nodes, and assert that they hold nothing any more."""
    it.wire.strike = lambda _: None
    it.manager.faults.clear()
    for node in range(NODES):
        for _ in range(3):
            for action, params in (
                ("cancel", {}),
                ("delete", {}),
                ("decommission", {"mode": "full_decommission", "leave_on": True}),
            ):
                await happens(it, asks(node, action, **params))
            for _ in range(4):
                await happens(it, goes_on)
    assert {(await node.state())[0] for node in it.nodes} == {"deleted"}, [await node.state() for node in it.nodes]
    assert [await it.lan.site.conn.fetchval(f"SELECT count(*) FROM farrier.{table}") for table in HOLDS] == [0, 0, 0, 0]
    assert not it.lan.ports
