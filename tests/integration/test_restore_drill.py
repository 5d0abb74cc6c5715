"""A fleet is restored from a dump while its machines have moved on: nothing outside changes until holds are lifted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from farrier.io.connections.embedded import wheel_binaries
from farrier.io.connections.pool import Connection
from farrier.model.loop.restores import HoldChoice
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import Region
from farrier.sim.ufm import Manager
from tests.support import onboarded, pg, tenancy
from tests.support.site import MINUTE, Machine
from tests.support.tenancy import PARTITION, Tenancy
from tests.support.wire import Blow, Wire

READS = {"version", "list", "pkey"}
AGAIN = "the database was restored; submit again"
_ENFORCE = """
    UPDATE farrier.nodes SET bmc = bmc || '{"desired_power": "off"}', version = version + 2 WHERE name = $1
"""
_INTENT = "INSERT INTO farrier.intents (node, action, params) VALUES ($1, $2, $3::text::jsonb)"
_ANSWERS = "SELECT status, reason FROM farrier.intents WHERE action = 'set_power' ORDER BY id"
_TASKS = "SELECT status, result::text FROM farrier.node_tasks ORDER BY id"
_HOLDS = "SELECT kind, name, choice, difference FROM farrier.list_holds()"
_LIFT = "SELECT kind, name, why FROM farrier.lift_holds($1, $2, NULL, $3, 'a drill', 'ann')"


class Outside(msgspec.Struct):
    """The services outside farrier, which outlive the database."""

    region: Region
    ufm: Manager

    @asynccontextmanager
    async def served(self, db: pg.Database) -> AsyncIterator[tuple[Tenancy, Wire]]:
        """Run farrier on this database; its BMCs, region and UFM are these."""
        wire = Wire(self.region)
        async with tenancy.opened(db, wire=wire, manager=self.ufm) as served:
            yield served, wire


async def restored(dumped: pg.Database, into: pg.Database) -> None:
    """Restore a dump of one database into another."""
    dump = await anyio.run_process([str(wheel_binaries() / "pg_dump"), "-d", dumped.dsn])
    restore = [str(wheel_binaries() / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", "-d", into.dsn]
    await anyio.run_process(restore, input=dump.stdout)


async def fleet(served: Tenancy, wire: Wire) -> dict[str, Machine]:
    """Nodes that farrier changes at the next opportunity."""
    await served.segment()
    await served.partition()
    nodes = {"serving": await served.active("serving"), "enforced": await served.active("enforced")}
    drained = await served.active("drained")
    await drained.asked("drain")
    nodes["drained"] = drained
    nodes["deploying"] = await served.begun(name="deploying")
    cancelled = await served.begun(name="cancelled")
    wire.strike = lambda _: Blow.NO_RACK  # the undo does not end
    await cancelled.asked("cancel")
    return nodes | {"cancelled": cancelled}


async def asked(conn: Connection) -> None:
    """Intents and an enforced power that no controller has seen yet."""
    await conn.execute(_INTENT, "serving", "set_power", '{"power": "off"}')
    await conn.execute(_INTENT, "cancelled", "set_power", '{"power": "reset"}')
    await conn.execute(_ENFORCE, "enforced")


class Drill(msgspec.Struct):
    """farrier on the restored database. `keys` are the keys of the agents, as in the backup."""

    served: Tenancy
    wire: Wire
    keys: dict[str, str]

    @property
    def conn(self) -> Connection:
        return self.served.site.conn

    @property
    def sent(self) -> tuple[list[str], set[str], list[Any]]:
        """The changes that were sent to the region, to UFM and to BMCs."""
        return self.wire.ops, set(self.served.manager.requests) - READS, self.served.site.bmc.powers

    async def node(self, name: str) -> Machine:
        """A node of the restored database, with the key that its agent has."""
        id_ = await self.conn.fetchval("SELECT id FROM farrier.nodes WHERE name = $1", name)
        node = Machine(self.served.site, name, id_)
        node.key = self.keys[name]
        return node

    async def holds(self) -> dict[str, str | None]:
        """The difference of each held resource, by name."""
        return {row["name"]: row["difference"] for row in await self.conn.fetch(_HOLDS)}

    async def lift(
        self, kind: str | None = None, name: str | None = None, choice: HoldChoice | None = None
    ) -> dict[str, str | None]:
        """Lift holds; returns why each selected resource is still held."""
        rows = await self.conn.fetch(_LIFT, kind, None if name is None else [name], choice)
        await self.served.site.wait(MINUTE)
        return {row["name"]: row["why"] for row in rows}


NOTHING: tuple[list[str], set[str], list[Any]] = ([], set(), [])
MISSING = "held after a restore: missing members: 0002c903000e0005"


@pytest.fixture
async def drill(pg_server: pg.Server) -> AsyncIterator[Drill]:
    """A fleet at work is dumped. It moves on, and then farrier runs for an hour on the restored database."""
    outside = Outside(Region(durations=onboarded.QUICK), Manager())
    async with pg_server.copy() as live, pg_server.copy(pg.EMPTY) as again:
        async with outside.served(live) as (before, wire):
            keys = {name: node.key for name, node in (await fleet(before, wire)).items()}
        async with live.connect() as conn:
            await asked(conn)
        await restored(live, again)
        async with outside.served(live) as (goes_on, _):
            await goes_on.site.wait(20 * MINUTE)
        await again.advance(20 * MINUTE)
        outside.ufm.requests.clear()
        async with outside.served(again) as (after, wire):
            for _ in range(60):
                await after.site.wait(MINUTE)
            yield Drill(after, wire, keys)


async def test_the_hour_after_a_restore_changes_nothing_outside_and_shows_what_differs(drill: Drill) -> None:
    assert drill.sent == NOTHING
    assert [tuple(row) for row in await drill.conn.fetch(_ANSWERS)] == [("rejected", AGAIN), ("rejected", AGAIN)]
    assert [tuple(row) for row in await drill.conn.fetch(_TASKS)] == [("cancelled", json.dumps(AGAIN))]
    assert await drill.holds() == {
        "serving": None,
        "enforced": "held after a restore: power is on, target power is off",
        "drained": "held after a restore: decommission 1 was live in the backup (running, stage drain_node)",
        "deploying": "held after a restore: onboarding 4 was live in the backup (running, stage wait_for_deployed)",
        "cancelled": "held after a restore: onboarding 5 was live in the backup "
        "(compensating, stage wait_for_deployed)",
        "north": None,
        "tenant-a": None,
        PARTITION: MISSING,
    }
    serving = await drill.node("serving")
    with pytest.raises(pg.PostgresError, match="is held"):
        await serving.beat()


async def test_a_lift_skips_each_difference_and_each_choice_is_carried_out_and_the_work_goes_on(drill: Drill) -> None:
    still_held = await drill.lift()
    assert {name for name, why in still_held.items() if why is None} == {"serving", "north", "tenant-a"}
    serving, drained = await drill.node("serving"), await drill.node("drained")
    await serving.beat()
    assert (await serving.state())[0] == "active"

    await drill.lift("node", "deploying", HoldChoice.END)
    await drill.lift("node", "cancelled", HoldChoice.END)
    await drill.lift("node", "enforced", HoldChoice.ADOPT)
    await drill.lift("node", "drained", HoldChoice.RESUME)
    assert drill.sent == NOTHING
    for name in ("deploying", "cancelled"):
        assert (await (await drill.node(name)).state())[:2] == ("enrolling", "cancelled")
    asked = "SELECT DISTINCT requested_by FROM farrier.history WHERE cause = 'restore'"
    assert [row[0] for row in await drill.conn.fetch(asked)] == ["ann"]
    assert "desired_power" not in await (await drill.node("enforced")).bmc()
    assert await drill.holds() == {PARTITION: MISSING}

    await drained.finish(TaskType.DRAIN)
    assert (await drained.state())[0] == "retired"
    await drill.lift("ib_partition", PARTITION, HoldChoice.RESUME)
    assert "0002c903000e0005" in drill.served.ports
    await serving.asked("set_power", power="off")
    assert [power for _, power, _ in drill.served.site.bmc.powers] == ["off"]
    assert await drill.holds() == {}
