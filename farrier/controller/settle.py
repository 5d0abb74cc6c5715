"""Commits finished runs and publishes what came of it. The one place of the loop that writes.

What was woken or is due is committed at once, a pass together. Steps end one by one, and passes that go on are small:
their runs stand in a line and share commits, in one for those that write and in one for those that only give their row
back. Whatever runs again at once stays claimed by the commit, and goes on as taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup

from farrier.controller.attempt import Run
from farrier.controller.host import Core
from farrier.controller.line import Line
from farrier.controller.publish import Publisher
from farrier.errors import DatabaseUnreachable
from farrier.model.schedule import Lane, Result, Taken, Verdict, new_token

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_log = structlog.stdlib.get_logger(__name__)

# Shorter than a lease: a commit that takes longer has lost its claims by the time it is through.
_COMMIT_SECONDS = 10.0
# A pass of so many is committed by itself: it gains nothing from others, and they would wait for it.
_MANY = 64


class Settler(Generic[R, S, W]):
    """Commit, then effects."""

    def __init__(self, core: Core[R, S, W], publisher: Publisher[R, S]) -> None:
        self._kind = core.kind
        self._io = core.io
        self._leases = core.leases
        self._clock = core.host.clock
        self._publisher = publisher
        self._busy: Line[R, S, W] = Line(self._commit_line, self._clock)
        self._idle: Line[R, S, W] = Line(self._commit_line, self._clock)
        self._go_on: Callable[[Taken], object] = _nobody
        self._closed = False

    def close(self) -> None:
        """Keep nothing from now on: whatever is to run again is for others."""
        self._closed = True

    def serve(self, background: TaskGroup, go_on: Callable[[Taken], object]) -> None:
        """Commit what stands in line, in `background`; what runs again at once is told to `go_on`."""
        self._go_on = go_on
        background.start_soon(self._busy.serve)
        background.start_soon(self._idle.serve)

    async def settle(self, runs: Sequence[Run[R, S, W]], *, share: bool) -> Taken | None:
        """Commit `runs` and publish them, with others if they are few and are to `share`. Answers those that run again
        at once, unless the line has told of them."""
        if share and len(runs) < _MANY:
            await self.submit(runs)
            return None
        kept, locked = await self._commit(runs, patient=False)
        if not locked:
            return kept
        await self._hand_on(kept)  # nobody waits for the rows of others
        await self._wait_for(locked)
        return None

    async def submit(self, runs: Sequence[Run[R, S, W]]) -> None:
        """Commit `runs` together with others that are ready; returns when they are settled."""
        busy = [run for run in runs if not run.finished.idle]
        idle = [run for run in runs if run.finished.idle]
        locked: list[Run[R, S, W]] = []
        if busy:
            locked += await self._busy.join(busy)
        if idle:
            locked += await self._idle.join(idle)
        await self._wait_for(locked)

    async def give_back(self, tokens: Mapping[int, int], delay: timedelta, lane: Lane) -> None:
        """Let rows go without an outcome; if the database is away, their leases do it."""
        if not tokens:
            return
        try:
            with anyio.fail_after(_COMMIT_SECONDS, shield=True):
                await self._io.give_back(tokens, delay, lane)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("give_back.failed", kind=self._kind, rows=len(tokens), error=str(error))

    async def _commit_line(self, runs: Sequence[Run[R, S, W]]) -> Sequence[Run[R, S, W]]:
        kept, locked = await self._commit(runs, patient=False)
        await self._hand_on(kept)
        return locked

    async def _wait_for(self, locked: Sequence[Run[R, S, W]]) -> None:
        """One by one, and out of the line: each waits for whoever holds its row."""
        for run in locked:
            kept, _ = await self._commit([run], patient=True)
            await self._hand_on(kept)

    async def _hand_on(self, kept: Taken | None) -> None:
        # A commit is not torn by a cancellation; what would go on after it is gone by then.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if kept is not None:
            self._go_on(kept)

    async def _commit(self, runs: Sequence[Run[R, S, W]], *, patient: bool) -> tuple[Taken | None, list[Run[R, S, W]]]:
        """Commit and publish; answers the rows that go on, and the runs left over because their rows are locked.
        Shielded and bounded: a run that was decided is not torn by a cancellation."""
        results: Mapping[int, Result] = {run.finished.id: Result(Verdict.UNKNOWN) for run in runs}
        token = None if self._closed else new_token()
        sent_at = self._clock.monotonic()
        try:
            with anyio.fail_after(_COMMIT_SECONDS, shield=True):
                results = await self._io.commit([run.finished for run in runs], patient=patient, keep=token)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("commit.failed", kind=self._kind, runs=len(runs), error=str(error))
        settled: list[Run[R, S, W]] = []
        locked: list[Run[R, S, W]] = []
        for run in runs:
            (locked if results[run.finished.id].verdict is Verdict.LOCKED else settled).append(run)
        self._publisher.publish(settled, results)
        return self._taken(results, token, sent_at), locked

    def _taken(self, results: Mapping[int, Result], token: int | None, sent_at: float) -> Taken | None:
        kept = tuple(result.kept for result in results.values() if result.kept is not None)
        if token is None or not kept:
            return None
        self._leases.take((row.id for row in kept), token, sent_at)
        return Taken(token, Lane.WOKEN, kept)


def _nobody(_taken: Taken) -> None:
    """Before there is a line nothing stands in it."""
