"""IB partitions for tests: created by intent, with members that join by function, run by the real loop on a
simulated UFM.

`Fabric.settle` lets the loop work until there is nothing to do at this time; `wait` lets time pass for the database and
for the UFM's client, and settles. `crash` makes a run whose process dies after it has sent requests to UFM.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import msgspec
from typing_extensions import override

from farrier.config.sites import UfmSite
from farrier.handlers.ib_partition.handler import PARTITION_KIND, PartitionHandler
from farrier.io.connections.pool import Connection, Pool
from farrier.io.kinds.built_in import PARTITION_ROWS
from farrier.model.loop.outcome import Step
from farrier.model.partition.partition import KIND
from farrier.services.http.client import Times
from farrier.services.ufm.client import Fabrics
from farrier.sim.ufm import Manager, UfmTransport
from tests.support import loop, pg
from tests.support.clock import no_pause
from tests.support.observed import Observed
from tests.support.owner import MovedClock, Owner
from tests.support.ufm import OneCredential

SITE = "north"
KEY = 0x10  # the first of the pool
GUIDS = tuple(f"0002c903000e0{number:03x}" for number in range(1, 41))
PERIOD = timedelta(seconds=34)  # longer than a period with its jitter, and than a shared reading is kept

_ASK = (
    "INSERT INTO farrier.resource_intents (kind, resource, action, params, requested_by)"
    " VALUES ('ib_partition', $1, $2, $3::text::jsonb, 'ann') RETURNING id"
)

_IDS = "SELECT id FROM farrier.ib_partitions WHERE name = ANY ($1)"


class Fabric:
    """A database with partitions in it, and a site with a UFM."""

    def __init__(self, db: pg.Database, pool: Pool, conn: Connection, manager: Manager) -> None:
        self.db = db
        self.pool = pool
        self.conn = conn  # for the tests' own queries, which never wait for another session
        self.manager = manager
        self.clock = MovedClock()
        self.observed = Observed("ufm")
        self.hosts = {"ufm.test": manager}
        self.ledger = loop.Ledger()
        self.owner = Owner(pool, config=loop.BRISK, idle=True)
        self.settings = {SITE: UfmSite(url="http://ufm.test", credential="env:UFM")}
        self.fabrics: Fabrics

    # --- what clients do

    async def ask(self, action: str, partition: str = "ib", **params: object) -> int:
        """Insert an intent; returns its id."""
        asked: int = await self.pool.fetchval(_ASK, partition, action, json.dumps(params))
        return asked

    async def asked(self, action: str, partition: str = "ib", **params: object) -> tuple[str, str]:
        """Insert an intent and run until it is settled; returns status and reason of the answer."""
        request = await self.ask(action, partition, **params)
        await self.settle()
        return await self.answer(request)

    async def create(self, partition: str = "ib", **params: object) -> int:
        """Create a partition by intent; returns its id."""
        request = await self.ask("create", partition, **{"site": SITE, **params})
        made: int = await self.conn.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", request)
        return made

    async def ready(self, partition: str = "ib", *guids: str, **params: object) -> int:
        """Create a partition and run until it is ready; `node-1`, `node-2`, … own these members. Returns its id."""
        made = await self.create(partition, **params)
        await self.settle()
        for number, guid in enumerate(guids, start=1):
            await self.join(guid, f"node-{number}", partition)
        await self.settle()
        assert await self.state(made) == "ready", await self.outcome(made)
        return made

    async def join(
        self, guid: str, owner: str = "node-1", partition: str = "ib", membership: str = "full", node: int | None = None
    ) -> str:
        state: str = await self.pool.fetchval(
            "SELECT farrier.join_partition($1, $2, $3, $4, $5)", partition, guid, owner, node, membership
        )
        return state

    async def leave(self, guid: str, owner: str = "node-1", partition: str = "ib") -> None:
        await self.pool.execute("SELECT farrier.leave_partition($1, $2, $3)", partition, guid, owner)

    async def have_patience(self, patience: timedelta | None) -> None:
        """Set the timeout of requests to UFM; None: the usual one."""
        (site, settings), *_ = self.settings.items()
        if patience is not None:
            settings = msgspec.structs.replace(settings, read_timeout=patience, change_timeout=patience)
        await self.fabrics.use({site: settings})

    async def named(self) -> None:
        """From now on send farrier's names of partitions to UFM."""
        (site, settings), *_ = self.settings.items()
        await self.fabrics.use({site: msgspec.structs.replace(settings, partition_names=True)})

    # --- what is stored

    async def answer(self, request: int) -> tuple[str, str]:
        row: Any = await self.conn.fetchrow(
            "SELECT status, reason FROM farrier.resource_intents WHERE id = $1", request
        )
        return row["status"], row["reason"] or ""

    async def row(self, id_: int) -> Any:
        return await self.conn.fetchrow("SELECT * FROM farrier.ib_partitions WHERE id = $1", id_)

    async def state(self, id_: int) -> str:
        return str((await self.row(id_))["state"])

    async def members(self) -> dict[str, str]:
        """States of all members, by GUID."""
        rows = await self.conn.fetch("SELECT guid, state FROM farrier.ib_members ORDER BY guid")
        return {row["guid"]: row["state"] for row in rows}

    async def history(self, id_: int) -> list[str]:
        """The states that the partition entered, in order."""
        rows = await self.conn.fetch(
            "SELECT to_value FROM farrier.history"
            " WHERE kind = $1 AND id = $2 AND from_value IS NOT NULL ORDER BY version",
            KIND,
            id_,
        )
        return [row["to_value"] for row in rows]

    async def outcome(self, id_: int) -> dict[str, str]:
        text = await self.conn.fetchval("SELECT outcome FROM farrier.outcomes WHERE kind = $1 AND id = $2", KIND, id_)
        return msgspec.json.decode(text, type=dict[str, str])

    async def taken(self) -> list[int]:
        """The allocated numbers of the site's pool."""
        rows = await self.conn.fetch(
            "SELECT number FROM farrier.pool_numbers WHERE pool = $1 ORDER BY number", f"pkey:{SITE}"
        )
        return [row["number"] for row in rows]

    @property
    def ports(self) -> dict[str, str]:
        """Memberships that UFM has under the first key."""
        return {guid: port.membership for guid, port in self.manager.partitions[KEY].ports.items()}

    @asynccontextmanager
    async def another_replica(self) -> AsyncIterator[Fabrics]:
        """The clients of another process, which share no readings with this process."""
        async with _fabrics(self) as fabrics:
            await fabrics.use(self.settings)
            yield fabrics

    # --- running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The loop works in this block."""
        async with self.owner.working():
            yield

    async def settle(self) -> int:
        """Run until nothing is to be done at this time; returns how many runs that took. A run that failed or was
        refused by the database fails the test."""
        before = self.ledger.outcomes.total()
        await self.owner.settled()
        assert not self.ledger.errors, self.ledger.errors
        return self.ledger.outcomes.total() - before

    async def until_settled(self, names: Sequence[str]) -> None:
        """Return once these partitions have nothing to run at this time."""
        ids = [row["id"] for row in await self.conn.fetch(_IDS, list(names))]
        await self.owner.settled(only=(KIND, ids))

    async def wait(self, by: timedelta = PERIOD) -> int:
        """Let time pass, and settle; returns how many runs that took."""
        await self.db.advance(by)
        self.clock.advance(by)
        return await self.settle()

    async def crash(self, id_: int) -> None:
        """Make a run that sends requests to UFM and is never committed."""
        row: Any = await self.conn.fetchrow(PARTITION_ROWS.load, [id_])
        decision = PartitionHandler().handle(PARTITION_ROWS.decode(row["snapshot"]), row["now"])
        assert isinstance(decision, Step), decision
        await decision.act(self.fabrics)


@asynccontextmanager
async def opened(db: pg.Database, manager: Manager | None = None) -> AsyncIterator[Fabric]:
    """A fabric in a test's database; its pool has the keys 0x10 to 0x1f."""
    manager = manager or Manager()
    async with db.pool(10) as pool, db.connect() as conn:
        await conn.execute("SELECT farrier.set_pool($1, $2, $3)", f"pkey:{SITE}", KEY, KEY + 15)
        fabric = Fabric(db, pool, conn, manager)
        async with _fabrics(fabric) as fabric.fabrics:
            await fabric.fabrics.use(fabric.settings)
            handler = PARTITION_KIND.guarded(PartitionHandler())
            fabric.owner.add(PARTITION_KIND, handler, PARTITION_ROWS, services=fabric.fabrics, sink=fabric.ledger)
            async with fabric.owner.running():
                yield fabric


class _ByHost(httpx.AsyncBaseTransport):
    """Passes each request to the UFM of its host; tests may add hosts."""

    def __init__(self, hosts: Mapping[str, Manager]) -> None:
        self._hosts = hosts

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await UfmTransport(self._hosts[request.url.host]).handle_async_request(request)


def _fabrics(fabric: Fabric) -> AbstractAsyncContextManager[Fabrics]:
    manager = fabric.manager
    return Fabrics.open(
        credentials=OneCredential(manager.username, manager.password, manager.token),
        times=Times(clock=fabric.clock, pause=no_pause),
        observer=fabric.observed,
        transport=_ByHost(fabric.hosts),
    )
