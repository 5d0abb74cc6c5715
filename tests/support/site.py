"""A site with nodes: the real loop on a real database, with clients and agents.

`Site` runs the loop of nodes. A `Machine` is one node as seen from outside: its methods insert intents as clients do
and call the functions of agents, all by public SQL. `settled` returns when the loop has nothing more to do; time passes
only by `wait`. Only the BMCs are fakes. With a `region`, its observer runs too, and all nodes belong to its site.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import anyio
import msgspec

from farrier.config import NodeConfig
from farrier.config.sites import Site as SiteConfig
from farrier.errors import UndecodableState
from farrier.handlers.node.changes import NodeServices
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.calls.identities import PostgresIdentities
from farrier.io.connections.pool import Single
from farrier.io.connections.pulse import PostgresPulse
from farrier.io.kinds.node import NodeRows
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import Region
from tests.support import pg, tokens
from tests.support.fake_bmc import FakeBmc
from tests.support.loop import PATIENCE, Ledger
from tests.support.nodes import NoRegions, Secrets
from tests.support.observatory import Observatory, observatory
from tests.support.owner import ALL, Owner
from tests.support.stages import SITE
from tests.support.wire import Wire

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

FINISH = "SELECT farrier.finish_task($1, $2, $3, $4, $5, $6)"
_REGISTER = """
    SELECT farrier.register_node($1, bmc_address => $2, bmc_credential => $3, macs => $4, maas_id => $5,
                                 agentless => $6, auto_manage => $7, bootstrap_token => $8, site => $9)
"""
_TELL = """
    INSERT INTO farrier.intents (node, action, params, requested_by, api_version)
    VALUES ($1, $2, $3::jsonb, 'an operator', 2) RETURNING id
"""
_LOOK = """
    SELECT n.id, n.status, n.management, n.ever_onboarded, n.ever_active, n.deleting, n.bmc_address,
           n.bmc_credential, n.bmc::text AS bmc, n.paused IS NOT NULL AS paused,
           (SELECT q.cause FROM farrier.node_quarantines q WHERE q.node = n.id) AS quarantine,
           n.live_workflow_kind AS live, w.kind AS workflow, w.mode, w.status AS workflow_status, w.stage, w.attempt,
           w.failure_class,
           (SELECT o.outcome::text FROM farrier.outcomes o WHERE o.kind = 'node' AND o.id = n.id) AS outcome
      FROM farrier.nodes n
      LEFT JOIN LATERAL (SELECT * FROM farrier.node_workflows x
                          WHERE x.node_id = n.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) w ON true
     WHERE n.id = $1
"""
_CONDITIONS = "SELECT source, id, effect FROM farrier.node_conditions WHERE node = $1 ORDER BY source, id"
_MOVES = """
    SELECT layer, from_value, to_value, cause FROM farrier.history
     WHERE kind = 'node' AND id = $1 ORDER BY version, layer
"""
_TASKS = """
    SELECT type, status, result::text AS result, attempt, failures, claimed_by
      FROM farrier.node_tasks WHERE node_id = $1 ORDER BY id
"""


class Answer(msgspec.Struct, frozen=True):
    """The answer to an intent: its status, and the reason of the status."""

    status: str
    reason: str | None


class Move(msgspec.Struct, frozen=True):
    """A row of the history."""

    layer: str
    source: str | None
    target: str
    cause: str


class Lease(msgspec.Struct, frozen=True):
    """A claimed task."""

    task: int
    token: UUID
    attempt: int


class Machine:
    """One node, with the calls that its clients and its agent make."""

    def __init__(self, site: Site, name: str, id_: int) -> None:
        self.site = site
        self.name = name
        self.id = id_
        self.key = ""

    async def tell(self, action: str, **params: Any) -> int:
        """Insert an intent; returns its id."""
        id_: int = await self.site.conn.fetchval(_TELL, self.name, action, as_json(params))
        return id_

    async def ask(self, action: str, **params: Any) -> Answer:
        """Insert an intent, run until the loop is settled, and return the answer."""
        id_ = await self.tell(action, **params)
        await self.site.settled()
        return await self.site.answer(id_)

    async def asked(self, action: str, **params: Any) -> Self:
        """As `ask`, for an intent that has to be accepted."""
        answer = await self.ask(action, **params)
        assert answer.status == "accepted", (action, answer)
        return self

    async def ask_together(
        self, *requests: tuple[str, dict[str, Any]], beat: bool = False, later: timedelta | None = None
    ) -> list[Answer]:
        """Insert several intents in one transaction, so that one run sees them all. With `beat` the transaction has a
        heartbeat, too; with `later` it moves the clock first, so that no run
        begins between the move and the intents."""
        async with self.site.conn.transaction():
            if later is not None:
                await self.site.conn.execute(pg.ADVANCE, later)
            if beat:
                await self.send_health({})
            ids = [await self.tell(action, **params) for action, params in requests]
        await self.site.settled()
        return [await self.site.answer(id_) for id_ in ids]

    async def enroll(self, token: str | None = None) -> Self:
        """Enroll the agent; without a token, with a new one."""
        if token is None:
            token = await self.site.conn.fetchval("SELECT farrier.issue_bootstrap($1)", self.name)
        self.key = await self.site.conn.fetchval("SELECT agent_key FROM farrier.enroll_agent($1)", tokens.named(token))
        await self.site.settled()
        return self

    async def beat(self, *alerts: str, **health: Any) -> Self:
        """Send a heartbeat; `alerts` block scheduling."""
        report = {"alerts": [{"id": alert, "blocks_scheduling": True} for alert in alerts]} if alerts else {}
        await self.report({"ok": not alerts, **report, **health})
        return self

    async def report(self, health: dict[str, Any]) -> None:
        """Send a heartbeat with this health."""
        await self.send_health(health)
        await self.site.settled()

    async def send_health(self, health: dict[str, Any]) -> None:
        """Send a heartbeat with this health, and do not wait for the loop."""
        await self.site.conn.execute(
            "SELECT farrier.heartbeat($1, $2::jsonb, $3)", self.name, as_json(health), self.key
        )

    async def claim(self, type_: TaskType, lease: timedelta = MINUTE) -> Lease | None:
        """Claim the queued task of a type, if there is one."""
        row = await self.site.conn.fetchrow(
            "SELECT * FROM farrier.claim_task($1, $2, $3, $4)", self.name, [type_.value], self.key, lease
        )
        return None if row is None else Lease(row["task"], row["lease_token"], row["attempt"])

    async def finish(self, type_: TaskType, *, succeeded: bool = True, times: int = 1) -> Self:
        """Claim a task of a type and end it, `times` in a row."""
        for _ in range(times):
            lease = await self.claim(type_)
            assert lease is not None, f"no {type_} is queued: {await self.tasks()}"
            await self.end(lease, succeeded=succeeded)
        return self

    async def end(self, lease: Lease, *, succeeded: bool = True) -> None:
        await self.site.conn.execute(FINISH, self.name, lease.task, lease.token, self.key, succeeded, '{"log": "…"}')
        await self.site.settled()

    async def look(self) -> Any:
        """The node and its newest workflow, as they are stored."""
        return await self.site.conn.fetchrow(_LOOK, self.id)

    async def state(self) -> tuple[str, str | None, str | None]:
        """(status, workflow status, stage)."""
        row = await self.look()
        return row["status"], row["workflow_status"], row["stage"]

    async def bmc(self) -> dict[str, Any]:
        known: dict[str, Any] = msgspec.json.decode((await self.look())["bmc"])
        return known

    async def quarantine(self) -> str | None:
        """What keeps the node out of service: the causes, and the conditions by their names."""
        kept: str | None = (await self.look())["quarantine"]
        return kept

    async def conditions(self) -> dict[str, str]:
        """The effect of each condition of the node, by SOURCE/ID."""
        rows = await self.site.conn.fetch(_CONDITIONS, self.id)
        return {f"{row['source']}/{row['id']}": row["effect"] for row in rows}

    async def moves(self, layer: str | None = None) -> list[Move]:
        rows = await self.site.conn.fetch(_MOVES, self.id)
        return [Move(*row) for row in rows if layer in (None, row["layer"])]

    async def path(self, layer: str = "status") -> list[str]:
        """Every value that a layer had, in order."""
        return [move.target for move in await self.moves(layer)]

    async def tasks(self, type_: TaskType | None = None) -> list[Any]:
        rows = await self.site.conn.fetch(_TASKS, self.id)
        return [row for row in rows if type_ is None or row["type"] == type_]


class Site:
    """A database with a running loop of nodes, and with a loop of regions if the site has a region."""

    def __init__(
        self,
        db: pg.Database,
        conn: Single,
        owner: Owner,
        *,
        bmc: FakeBmc | None = None,
        maas: Observatory | None = None,
    ) -> None:
        self.db = db
        self._maas = maas
        self.conn = conn
        self.owner = owner
        self.pool = owner.pool
        self.ledger = Ledger()
        self.bmc = bmc or FakeBmc()
        self.secrets = Secrets()
        self._count = 0
        sites = {} if maas is None else {maas.config.name: maas.config}
        self.regions = NoRegions() if maas is None else maas.regions
        self.handler = NodeHandler(NodeConfig(), sites=sites)
        owner.add(
            NODE_KIND,
            self.handler,
            NodeRows(),
            services=NodeServices(self.bmc, self.secrets, self.regions, PostgresIdentities(owner.pool)),
            sink=self.ledger,
        )

    @property
    def maas(self) -> Observatory:
        """The site's region; fails if the site was opened without one."""
        assert self._maas is not None, "the site was opened without a region"
        return self._maas

    async def register(self, name: str = "", **details: Any) -> Machine:
        """Register a node; `details` are parameters of `register_node`."""
        self._count += 1
        name = name or f"gpu-{self._count}"
        given = {
            "bmc_address": None,
            "bmc_credential": None,
            "macs": [],
            "maas_id": None,
            "agentless": False,
            "auto_manage": True,
            "bootstrap_token": None,
            "site": None if self._maas is None else self._maas.config.name,
        } | tokens.in_details(details)
        id_ = await self.conn.fetchval(_REGISTER, name, *given.values())
        await self.conn.execute("SELECT farrier.enqueue('node', $1)", id_)
        await self.settled()
        return Machine(self, name, id_)

    async def with_bmc(self, name: str = "", **details: Any) -> Machine:
        """Register a node with the address and the credential of a BMC of its own."""
        bmc = {"bmc_address": f"https://10.0.0.{self._count + 1}", "bmc_credential": "env:BMC"}
        return await self.register(name, **bmc | details)

    async def enrolled(self) -> Machine:
        """A node whose agent has enrolled: its onboarding runs and waits for a heartbeat."""
        token = str(uuid4())
        return await (await self.register(bootstrap_token=token)).enroll(token)

    async def active(self) -> Machine:
        machine = await (await self.enrolled()).beat()
        assert (await machine.state())[0] == "active"
        return machine

    async def draining(self) -> Machine:
        return await (await self.active()).asked("drain")

    async def retired(self) -> Machine:
        return await (await self.draining()).finish(TaskType.DRAIN)

    async def removing(self) -> Machine:
        return await (await self.retired()).asked("remove")

    async def verifying(self, machine: Machine) -> Machine:
        """Ask for a verification, which is held at the BMC."""
        self.bmc.hold()
        await machine.tell("manage")
        self.wake()
        await self.bmc.called()
        return machine

    async def adopting(self, machine: Machine) -> Machine:
        """Ask for an adoption, which is held at the BMC."""
        self.bmc.hold()
        await machine.tell("adopt")
        self.wake()
        await self.bmc.called()
        return machine

    async def cut_short(self) -> None:
        """Return once a pending intent has cut the held read short; later reads are not held."""
        self.wake()
        with anyio.fail_after(PATIENCE):
            await self.bmc.cut.wait()
        self.bmc.let_go()
        await self.settled()

    async def held_or_settled(self) -> None:
        """Return once a call to a BMC is held, or nothing is left to do."""
        await self.owner.settled(self.bmc.begun.is_set)

    async def answer(self, intent: int) -> Answer:
        (row,) = await self.conn.fetch("SELECT status, reason FROM farrier.intents WHERE id = $1", intent)
        return Answer(*row)

    async def wait(self, by: timedelta) -> None:
        """Let time pass, and run until the loop is settled."""
        await self.pass_time(by)
        await self.settled()

    async def pass_time(self, by: timedelta, *, doors: bool = True) -> None:
        """Let time pass in the database and in the region; without `doors`, no door reaches an agent meanwhile."""
        if self._maas is not None:
            self._maas.pass_time(by)
        await self.db.advance(by, doors=doors)

    async def wait_until(
        self, done: Callable[[], Awaitable[bool]], *, every: timedelta = 10 * SECOND, longest: timedelta = 4 * HOUR
    ) -> None:
        """Let time pass in steps until `done`; fails when that takes longer than `longest`."""
        for _ in range(longest // every):
            if await done():
                return
            await self.wait(every)
        assert await done(), f"the condition did not hold within {longest}"

    async def settled(self) -> None:
        """Return once nothing is due and nothing runs, or once a change is held on its way to the region."""
        await self.owner.settled(lambda: self.is_held)

    @property
    def is_held(self) -> bool:
        """Whether a change is held on its way to the region."""
        return self._maas is not None and self._maas.wire is not None and self._maas.wire.held.is_set()

    async def is_busy(self) -> bool:
        """Whether anything is due or runs."""
        return await self.owner.is_busy()

    def wake(self) -> None:
        """Have the owner look for wakes now."""
        self.owner.wake()


@asynccontextmanager
async def opened(  # noqa: PLR0913 - what may differ between sites
    db: pg.Database,
    *,
    region: Region | Wire | None = None,
    config: SiteConfig = SITE,
    crash: bool = False,
    refusals: tuple[int, ...] = (0,),
    unreadable: bool = False,
    more: Callable[[Site], AbstractAsyncContextManager[None]] | None = None,
    shards: Sequence[int] = ALL,
) -> AsyncIterator[Site]:
    """A running site in a test's database. At its end it asserts that the loop had no error, and that the model and the
    database refused as many commits as one of the numbers in `refusals`. With `unreadable`, errors of rows that cannot
    be decoded are allowed. With `crash` the process dies at the end, and gives no shard back. A `region` is
    that of the site in `config`. `more` runs loops of other kinds."""
    # One connection: each new one has to load the catalogs first, which takes longer than most tests.
    async with db.connect() as conn, db.pool(1) as pool:
        await PostgresPulse(pool).beat()
        owner = Owner(pool, shards=shards)
        async with observatory(owner, region, config) as maas:
            site = Site(db, conn, owner, maas=maas)
            async with AsyncExitStack() as stack:
                if more is not None:
                    await stack.enter_async_context(more(site))
                await stack.enter_async_context(owner.running(crash=crash))
                yield site
        assert (refused := site.ledger.verdicts.count("refused")) in refusals, site.ledger.verdicts
        assert set(site.ledger.errors) <= {UndecodableState.label} if unreadable else not site.ledger.errors[refused:]
        assert maas is None or not (maas.ledger.errors or maas.ledger.verdicts.count("refused")), maas.ledger.errors


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
