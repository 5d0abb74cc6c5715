"""A small kind with a `KindSpec`, for tests of the machinery that all kinds share: crates.

A crate is packed at once, takes a number of the pool `slots`, may be relabelled, and is emptied before it is gone. The
database refuses the label `poison`, which stands for any reason to refuse a commit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeAlias

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.clock import MonotonicClock
from farrier.controller.controller import Controller
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import Ownership
from farrier.handlers.resource.kind import ResourceKind
from farrier.handlers.resource.requests import accept, params_of
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Connection, Pool
from farrier.io.kinds.rows import ResourceRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.io.schema import catalog
from farrier.model.intents.params import Params
from farrier.model.kinds.resource import Answer, Resource
from farrier.model.kinds.spec import KindAction, KindEdge, KindSpec, KindState
from farrier.model.loop.outcome import Decision, Deleted, DoNothing, Outcome, Step, Transition, Update
from farrier.protocols import StateHandler
from tests.support import loop, pg
from tests.support.owner import Owner

Label: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=20, pattern=r"\A\S+\Z")]
Labels: TypeAlias = Annotated[tuple[Label, ...], msgspec.Meta(max_length=3)]


class Pack(Params, frozen=True, kw_only=True):
    """The parameters with which a crate is created."""

    size: Annotated[int, msgspec.Meta(ge=1, le=100)]
    labels: Labels = ()
    slot: int | None = None
    site: str | None = None


class Relabel(Params, frozen=True, kw_only=True):
    """Labels that replace all labels of the crate."""

    labels: Labels


SPEC = KindSpec(
    name="crate",
    what="a crate",
    relation="farrier_crates.crates",
    states={
        "packing": KindState(limit=timedelta(minutes=5)),
        "packed": KindState(why_none="this is where a crate belongs"),
        "emptying/unpack": KindState(limit=timedelta(minutes=15)),
        "gone": KindState(why_none="it has ended"),
    },
    edges=(
        KindEdge("packing", "packed", "at once"),
        KindEdge("packed", "emptying/unpack", "delete", owner="whoever asks"),
        KindEdge("emptying/unpack", "gone", "it is empty"),
    ),
    initial="packing",
    terminal=frozenset({"gone"}),
    steady="packed",
    create=Pack,
    actions={
        "update": KindAction(description="label it anew", params=Relabel, accepted_in=("packed",)),
        "delete": KindAction(
            description="empty it, and have it no more",
            accepted_in=("packed",),
            instead="wait until it is packed",
            interrupts=True,
        ),
    },
)

CREATE = """
    CREATE SCHEMA farrier_crates;
    CREATE TABLE farrier_crates.crates (
        LIKE farrier.resources INCLUDING ALL,
        size   integer NOT NULL DEFAULT 1,
        labels text[]  NOT NULL DEFAULT '{}' CHECK (NOT labels && '{poison}'),
        slot   integer
    );
    CREATE FUNCTION farrier_crates.take_slot() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.slot := farrier.take_number('slots', 'crate', NEW.id, NEW.slot);
        RETURN NEW;
    END $$;
    CREATE TRIGGER take_slot BEFORE INSERT ON farrier_crates.crates
        FOR EACH ROW EXECUTE FUNCTION farrier_crates.take_slot();
    SELECT farrier.make_kind('crate', 'farrier_crates.crates');
    SELECT farrier.set_pool('slots', 1, 4);
"""


class Crate(Resource, frozen=True, kw_only=True):
    """Snapshot of a crate."""

    size: int
    labels: tuple[str, ...]
    slot: int


Decided: TypeAlias = Decision[Crate, Answer, "Hand"]


class Hand:
    """The service that a crate's step uses. After `hold` the step waits until the test sets `free`."""

    def __init__(self) -> None:
        self.free = anyio.Event()
        self.free.set()
        self.begun = anyio.Event()

    def hold(self) -> None:
        self.free = anyio.Event()

    async def unpack(self) -> None:
        self.begun.set()
        await self.free.wait()


class CrateHandler(StateHandler[Crate, Crate, Answer, Hand]):
    """Packs a crate at once, relabels it, and empties it in a step."""

    @override
    def handle(self, resource: Crate, now: datetime) -> Decided:
        asked = resource.requests
        match resource.state:
            case "packing":
                return Transition(to=resource.at("packed"), reason="packed", cause="at once")
            case "packed" if asked and asked[0].action == "delete":
                writes = (accept(asked[0]),)
                return Transition(
                    to=resource.at("emptying/unpack"), reason="to be gone", cause="request", writes=writes
                )
            case "packed" if asked:
                labels = params_of(asked[0], Relabel).labels
                to = resource.but(labels=labels)
                again = timedelta(0) if len(asked) > 1 else None
                return Update(to=to, reason="labelled", requeue_after=again, writes=(accept(asked[0], "labelled"),))
            case "emptying/unpack":
                return Step(name="unpack", act=_unpacking(resource), deadline=timedelta(seconds=60), reads_only=False)
            case "gone":
                return Deleted()
            case _:
                return DoNothing()


def _unpacking(crate: Crate) -> Any:
    async def act(hand: Hand) -> Outcome[Crate, Answer]:
        await hand.unpack()
        return Transition(to=crate.at("gone"), reason="empty", cause="unpack")

    return act


KIND: ResourceKind[Crate] = ResourceKind(SPEC)
HANDLER = KIND.guarded(CrateHandler())
CrateIO: TypeAlias = PostgresStateIO[Crate, Crate, Answer]


def rows() -> ResourceRows[Crate, Answer]:
    """The columns of a crate that a run may write."""
    return ResourceRows(SPEC, Crate, columns=("labels",))


class Yard:
    """A database with crates, and a loop that runs them."""

    def __init__(self, db: pg.Database, pool: Pool) -> None:
        self.db = db
        self.pool = pool
        self.hand = Hand()

    async def ask(self, action: str, crate: str = "c-1", params: str = "{}") -> int:
        """Insert an intent; returns its id."""
        return await ask(self.pool, action, crate, params)

    async def create(self, crate: str = "c-1") -> int:
        """Create a crate by intent; returns its id."""
        asked = await self.ask("create", crate, '{"size": 3}')
        made: int = await self.pool.fetchval("SELECT resource_id FROM farrier.resource_intents WHERE id = $1", asked)
        return made

    async def crate(self, id_: int) -> Any:
        return await self.pool.fetchrow("SELECT * FROM farrier_crates.crates WHERE id = $1", id_)

    async def intent(self, id_: int) -> Any:
        return await self.pool.fetchrow("SELECT * FROM farrier.resource_intents WHERE id = $1", id_)

    def io(self) -> CrateIO:
        return PostgresStateIO(self.pool, rows())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Owner]:
        """Run the loop; drain it at the end of the block."""
        owner = Owner(self.pool, config=loop.BRISK)
        owner.add(KIND, HANDLER, rows(), services=self.hand, sink=loop.Ledger())
        async with owner.running():
            yield owner

    @asynccontextmanager
    async def controlled(self) -> AsyncIterator[loop.Ledger]:
        """Run a whole controller; drain it at the end of the block."""
        ledger, stop = loop.Ledger(), anyio.Event()
        host = LoopContext(config=loop.BRISK, sink=ledger, clock=MonotonicClock(), ownership=Ownership())
        crates: Loop[Any, Any, Any, Any] = Loop(KIND, HANDLER, self.io(), services=self.hand, host=host)
        controller = Controller(PostgresControllers(self.pool), [crates], host, name="test")
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run, stop)
            try:
                yield ledger
            finally:
                stop.set()


async def ask(conn: Connection | Pool, action: str | None, crate: str | None = "c-1", params: str | None = "{}") -> int:
    """Insert an intent; returns its id."""
    asked: int = await conn.fetchval(
        "INSERT INTO farrier.resource_intents (kind, resource, action, params)"
        " VALUES ('crate', $1, $2, $3::jsonb) RETURNING id",
        crate,
        action,
        params,
    )
    return asked


async def install(conn: Connection) -> None:
    """Create the kind, with its model and the rights of roles."""
    await conn.execute(CREATE)
    await catalog.sync_kinds(conn, [SPEC])
    await conn.execute("SELECT farrier.grant_rights()")


@asynccontextmanager
async def opened(db: pg.Database, *, pool_size: int = 10) -> AsyncIterator[Yard]:
    await db.prepare(install)
    async with db.pool(pool_size) as pool:
        yield Yard(db, pool)


@pytest.fixture
def prepared() -> pg.Install:
    return install


@pytest.fixture
async def yard(every_db: pg.Database) -> AsyncIterator[Yard]:
    """A yard on each PostgreSQL. A test module assigns these fixtures to names."""
    async with opened(every_db) as made:
        yield made
