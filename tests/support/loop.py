"""Runs controllers of widgets for the tests, and lets tests wait for what the controllers report.

`Ledger` is a metrics sink that keeps the loop's reports; tests wait for them and examine them. No test sleeps: a test
waits for the ledger, or for an event that a script sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import anyio
import msgspec
from typing_extensions import override

from farrier.clock import MonotonicClock
from farrier.config import ControllerConfig
from farrier.controller.controller import Controller
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import Ownership
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Pool
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import DoNothing, Outcome, Step
from farrier.model.loop.runs import Failure, Move
from farrier.protocols import Clock, MetricsSink
from tests.support import pg, toy

WidgetIO: TypeAlias = PostgresStateIO[toy.Widget, toy.Shape, toy.Answer]
WidgetLoop: TypeAlias = Loop[toy.Widget, toy.Shape, toy.Answer, object]

# Long enough for a busy machine, and never reached by a test that passes.
PATIENCE = 20.0
# In most tests no notification arrives, so the poll finds every wake. A poll between a load and its commit would
# enqueue the resource again, which is rare with this interval.
BRISK = ControllerConfig(poll_interval=timedelta(milliseconds=200), drain_timeout=timedelta(seconds=5))

# Longer than any test: the controller learns only of the wakes that a test announces.
QUIET = msgspec.structs.replace(BRISK, poll_interval=timedelta(hours=1))

CONTENT: Outcome[toy.Shape, toy.Answer] = DoNothing()


class Ledger(MetricsSink):
    """A `MetricsSink` that records its calls."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.errors: list[str] = []
        self.moves: list[tuple[str | None, str]] = []
        self.samples: list[Sample] = []
        self.seconds_in_source: list[float | None] = []
        self.verdicts: list[str] = []
        self.waits: list[float] = []
        self.woken_by: Counter[str] = Counter()
        self.cut = 0
        self.limited = 0
        self._changed = anyio.Event()

    @override
    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        self.outcomes.update({outcome: len(seconds) for outcome, seconds in runs.items()})
        self._tell()

    @override
    def failed(self, kind: str, failure: Failure) -> None:
        self.errors.append(failure.error)
        self._tell()

    @override
    def moved(self, kind: str, name: str | None, move: Move, seconds: float | None, cause: str) -> None:
        self.moves.append((move.source, move.target))
        self.seconds_in_source.append(seconds)
        self._tell()

    @override
    def sampled(self, kind: str, samples: Sequence[Sample]) -> None:
        self.samples.extend(samples)
        self._tell()

    @override
    def waited(self, kind: str, seconds: Sequence[float]) -> None:
        self.waits.extend(seconds)

    @override
    def conflicted(self, kind: str, verdict: str) -> None:
        self.verdicts.append(verdict)
        self._tell()

    @override
    def deferred(self, kind: str) -> None:
        self.verdicts.append("deferred")
        self._tell()

    @override
    def step_cancelled(self, kind: str) -> None:
        self.cut += 1
        self._tell()

    @override
    def rerun_limited(self, kind: str) -> None:
        self.limited += 1
        self._tell()

    @override
    def woken(self, source: str) -> None:
        self.woken_by[source] += 1
        self._tell()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Return once `happened()` is true; it is checked again whenever the loop reports anything."""
        with anyio.fail_after(PATIENCE):
            while not happened():
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Bench:
    """A step that sets `begun` when it begins, and ends when the test sets `let_go`."""

    def __init__(
        self,
        outcome: Outcome[toy.Shape, toy.Answer] = CONTENT,
        *,
        reads_only: bool = False,
        deadline: timedelta = timedelta(seconds=60),
        if_interrupted: toy.Change | None = None,
    ) -> None:
        self.begun = anyio.Event()
        self._outcome = outcome
        self._deadline = deadline
        self._if_interrupted = if_interrupted
        self.raises: Exception | None = None
        self.let_go = anyio.Event()
        self.cancelled = 0
        self._reads_only = reads_only

    def script(self, _widget: toy.Widget, _now: datetime) -> toy.Decided:
        return Step(
            name="work",
            act=self.act,
            deadline=self._deadline,
            reads_only=self._reads_only,
            if_interrupted=self._if_interrupted,
        )

    async def act(self, _services: object) -> Outcome[toy.Shape, toy.Answer]:
        self.begun.set()
        try:
            await self.let_go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if self.raises is not None:
            raise self.raises
        return self._outcome


class Shop:
    """A database with widgets, and queries of what it stores."""

    def __init__(self, db: pg.Database, pool: Pool) -> None:
        self.db = db
        self.pool = pool

    async def register(self, *ids: int) -> None:
        await toy.register(self.pool, ids)

    async def ask(self, widget: int, *, urgent: bool = False) -> int:
        return await toy.ask(self.pool, widget, urgent=urgent)

    async def wakes(self, id_: int) -> int:
        """How many wakes of a widget are in the database."""
        count: int = await self.pool.fetchval(
            "SELECT count(*) FROM farrier.wakes WHERE kind = 'widget' AND resource = $1", id_
        )
        return count

    async def marked(self, id_: int) -> str | None:
        """The name of the widget's marked step; None without a mark."""
        step: str | None = await self.pool.fetchval(
            "SELECT step FROM farrier.effects WHERE kind = 'widget' AND resource = $1", id_
        )
        return step

    async def widget(self, id_: int) -> Any:
        return await self.pool.fetchrow("SELECT * FROM farrier_toy.widgets WHERE id = $1", id_)

    async def history(self, id_: int) -> list[tuple[str | None, str]]:
        records = await self.pool.fetch(
            "SELECT * FROM farrier.history WHERE kind = 'widget' AND id = $1 ORDER BY version", id_
        )
        return [(record["from_value"], record["to_value"]) for record in records]

    async def outcome(self, id_: int) -> dict[str, str]:
        """The stored outcome; empty if there is none."""
        text = await self.pool.fetchval("SELECT outcome FROM farrier.outcomes WHERE kind = 'widget' AND id = $1", id_)
        stored: dict[str, str] = msgspec.json.decode(text) if text else {}
        return stored

    async def answers(self) -> list[int]:
        """How often each request was answered, in the order of the requests."""
        records = await self.pool.fetch("SELECT answers FROM farrier_toy.requests ORDER BY id")
        return [record["answers"] for record in records]

    async def until_answered(self, requests: int) -> None:
        """Return once so many requests have an answer."""
        await self.db.until("SELECT count(*) >= $1 FROM farrier_toy.requests WHERE answers > 0", requests)

    def io(self, *, pool: Pool | None = None, rows: toy.WidgetRows | None = None) -> WidgetIO:
        return PostgresStateIO(pool or self.pool, rows or toy.WidgetRows())

    def controller(
        self,
        handler: toy.Scripted,
        ledger: Ledger,
        *,
        config: ControllerConfig = BRISK,
        clock: Clock | None = None,
        io: WidgetIO | None = None,
    ) -> tuple[Controller, WidgetLoop]:
        host = LoopContext(config=config, sink=ledger, clock=clock or MonotonicClock(), ownership=Ownership())
        loop: WidgetLoop = Loop(toy.WidgetKind(), handler, io or self.io(), services=object(), host=host)
        return Controller(PostgresControllers(self.pool), [loop], host, name="test"), loop

    @asynccontextmanager
    async def running(
        self,
        handler: toy.Scripted,
        *,
        config: ControllerConfig = BRISK,
        clock: Clock | None = None,
        io: WidgetIO | None = None,
    ) -> AsyncIterator[tuple[Controller, Ledger]]:
        """Run a controller; drain it at the end of the block."""
        ledger, stop = Ledger(), anyio.Event()
        controller, _ = self.controller(handler, ledger, config=config, clock=clock, io=io)
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run, stop)
            try:
                with anyio.fail_after(PATIENCE):
                    await controller.ready.wait()
                yield controller, ledger
            finally:
                stop.set()


@asynccontextmanager
async def opened(db: pg.Database, *, pool_size: int = 10) -> AsyncIterator[Shop]:
    await db.prepare(toy.install)
    async with db.pool(pool_size) as pool:
        yield Shop(db, pool)
