"""Network segments for tests: created by intent, with addresses allocated by function, run by the real loop.

`Lan.settle` lets the loop work until there is nothing to do at this time. Time passes only when the test moves it by
`advance`, so a test can count the runs that the loop makes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from typing import Any, TypeAlias

import anyio
import msgspec

from farrier.handlers.network_segment.handler import SEGMENT_KIND, SegmentHandler
from farrier.io.connections.pool import Connection, Pool
from farrier.io.kinds.built_in import SEGMENT_ROWS
from farrier.model.network.segment import KIND
from tests.support import again, loop, pg
from tests.support.owner import Owner

Address: TypeAlias = IPv4Address | IPv6Address

PERIOD = timedelta(minutes=5)
SITE = "ams"

_ASK = (
    "INSERT INTO farrier.resource_intents (kind, resource, action, params, requested_by)"
    " VALUES ('network_segment', $1, $2, $3::text::jsonb, 'ann') RETURNING id"
)

_IDS = "SELECT id FROM farrier.network_segments WHERE name = ANY ($1)"


class Lan:
    """A database with segments, and the loop that runs them."""

    def __init__(self, db: pg.Database, pool: Pool, conn: Connection, *, period: timedelta = PERIOD) -> None:
        self.db = db
        self.pool = pool
        self.conn = conn  # for the tests' own queries, which never wait for another session
        self.ledger = loop.Ledger()
        self.owner = Owner(pool, config=loop.BRISK, idle=True)
        handler = SEGMENT_KIND.guarded(SegmentHandler(period))
        self.owner.add(SEGMENT_KIND, handler, SEGMENT_ROWS, services=object(), sink=self.ledger)

    async def ask(self, segment: str, action: str, **params: object) -> int:
        """Insert an intent; returns its id."""
        return await ask(self.pool, segment, action, **params)

    async def create(self, segment: str = "lan", *prefixes: str, **more: object) -> int:
        """Create a segment by intent; returns its id."""
        params = {"site": SITE, "prefixes": list(prefixes or ("10.0.0.0/24",)), **more}
        asked = await self.ask(segment, "create", **params)
        made: int = await self.conn.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", asked)
        return made

    async def ready(self, segment: str = "lan", *prefixes: str, **more: object) -> int:
        """Create a segment and run until it is ready; returns its id."""
        made = await self.create(segment, *prefixes, **more)
        await self.settle()
        assert (await self.segment(made))["state"] == "ready"
        return made

    async def take(
        self, owner: str, wanted: str | None = None, *, segment: str = "lan", node: int | None = None
    ) -> str:
        return await take(self.pool, owner, wanted, segment=segment, node=node)

    async def give(self, owner: str, address: str, *, segment: str = "lan") -> bool:
        return await give(self.pool, owner, address, segment=segment)

    async def row(self, query: str, *arguments: object) -> Any:
        return await self.conn.fetchrow(query, *arguments)

    async def answer(self, request: int) -> tuple[str, str]:
        """Return status and reason of the answer."""
        row = await self.row("SELECT status, reason FROM farrier.resource_intents WHERE id = $1", request)
        return row["status"], row["reason"] or ""

    async def segment(self, id_: int) -> Any:
        return await self.conn.fetchrow("SELECT * FROM farrier.network_segments WHERE id = $1", id_)

    async def state(self, id_: int) -> str:
        return str((await self.segment(id_))["state"])

    async def wakes(self, id_: int) -> int:
        """How many wakes of the segment are in the database."""
        count: int = await self.conn.fetchval(
            "SELECT count(*) FROM farrier.wakes WHERE kind = $1 AND resource = $2", KIND, id_
        )
        return count

    async def history(self, id_: int) -> list[tuple[str, str]]:
        rows = await self.conn.fetch(
            "SELECT from_value, to_value FROM farrier.history"
            " WHERE kind = $1 AND id = $2 AND from_value IS NOT NULL ORDER BY version",
            KIND,
            id_,
        )
        return [(row["from_value"], row["to_value"]) for row in rows]

    async def outcome(self, id_: int) -> dict[str, str]:
        text = await self.conn.fetchval("SELECT outcome FROM farrier.outcomes WHERE kind = $1 AND id = $2", KIND, id_)
        return msgspec.json.decode(text, type=dict[str, str])

    async def free(self, id_: int) -> list[tuple[str, str]]:
        """The free ranges, in their order."""
        rows = await self.conn.fetch(
            "SELECT first, last FROM farrier.segment_free WHERE segment = $1 ORDER BY last", id_
        )
        return [(str(row["first"]), str(row["last"])) for row in rows]

    async def advance(self, by: timedelta) -> None:
        await self.db.advance(by)

    async def now(self) -> datetime:
        moment: datetime = await self.conn.fetchval("SELECT farrier.now()")
        return moment

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The loop works in this block."""
        async with self.owner.working():
            yield

    async def settle(self) -> int:
        """Run until nothing is to be done at this time; returns how many runs that took."""
        before = self.ledger.outcomes.total()
        await self.owner.settled()
        return self.ledger.outcomes.total() - before

    async def until_settled(self, names: Sequence[str]) -> None:
        """Return once these segments have nothing to run at this time."""
        ids = [row["id"] for row in await self.conn.fetch(_IDS, list(names))]
        await self.owner.settled(only=(KIND, ids))

    async def next_run(self, id_: int) -> None:
        """Let time pass until the segment runs next."""
        await self.advance(self.owner.next_run(KIND, id_))

    async def until_blocked(self) -> None:
        """Return once some session of this database waits for a lock."""
        with anyio.fail_after(loop.PATIENCE):
            while not await self.conn.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ):
                await again.later()


async def ask(conn: Connection | Pool, segment: str, action: str, **params: object) -> int:
    asked: int = await conn.fetchval(_ASK, segment, action, json.dumps(params))
    return asked


async def take(
    conn: Connection | Pool, owner: str, wanted: str | None = None, *, segment: str = "lan", node: int | None = None
) -> str:
    """Allocate an address, as another service does."""
    taken: Address = await conn.fetchval(
        "SELECT farrier.allocate_address($1, $2, $3::text::inet, $4)", segment, owner, wanted, node
    )
    return str(taken)


async def give(conn: Connection | Pool, owner: str, address: str, *, segment: str = "lan") -> bool:
    """Release the address."""
    given: bool = await conn.fetchval("SELECT farrier.release_address($1, $2::text::inet, $3)", segment, address, owner)
    return given


def names(count: int) -> Sequence[str]:
    return [f"host-{number:03}" for number in range(count)]


@asynccontextmanager
async def opened(
    db: pg.Database, *, pool_size: int = 10, period: timedelta = PERIOD, crash: bool = False
) -> AsyncIterator[Lan]:
    """Segments in a test's database, and their loop, which works while a test waits for it. With `crash` the process
    dies at the end of the block, and gives no shard back."""
    async with db.pool(pool_size) as pool, db.connect() as conn:
        lan = Lan(db, pool, conn, period=period)
        async with lan.owner.running(crash=crash):
            yield lan
