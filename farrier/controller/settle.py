"""Commits finished runs and publishes what came of it. The one place of the loop that writes.

A pass settles its runs together. Steps end one by one: each submits its run and waits, and whatever is
waiting when the previous commit ends goes into the next one. Whatever runs again at once stays claimed by the
commit, and is handed on as taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, NoReturn, TypeVar

import anyio
import structlog

from farrier.controller.attempt import Run
from farrier.controller.host import Core
from farrier.controller.publish import Publisher
from farrier.errors import DatabaseUnreachable
from farrier.model.schedule import Claimed, Lane, Result, Taken, Verdict, new_token

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_log = structlog.stdlib.get_logger(__name__)

# Shorter than a lease: a commit that takes longer has lost its claims by the time it is through.
_COMMIT_SECONDS = 10.0


class Settler(Generic[R, S, W]):
    """Commit, then effects."""

    def __init__(self, core: Core[R, S, W], publisher: Publisher[R, S]) -> None:
        self._kind = core.kind
        self._io = core.io
        self._leases = core.leases
        self._clock = core.host.clock
        self._publisher = publisher
        self._waiting: list[tuple[Run[R, S, W], anyio.Event]] = []
        self._arrived = anyio.Event()
        self._closed = False

    def close(self) -> None:
        """Keep nothing from now on: whatever is to run again is for others."""
        self._closed = True

    async def settle(self, runs: Sequence[Run[R, S, W]]) -> Taken | None:
        """Commit `runs` in one go and publish them; then, one by one, those whose rows somebody had
        locked. Answers those that run again at once."""
        token = None if self._closed else new_token()
        kept, locked = await self._commit(runs, token, patient=False)
        for run in locked:
            kept += (await self._commit([run], token, patient=True))[0]
        return Taken(token, Lane.WOKEN, tuple(kept)) if token is not None and kept else None

    async def give_back(self, tokens: Mapping[int, int], delay: timedelta, lane: Lane) -> None:
        """Let rows go without an outcome; if the database is away, their leases do it."""
        if not tokens:
            return
        try:
            with anyio.fail_after(_COMMIT_SECONDS, shield=True):
                await self._io.give_back(tokens, delay, lane)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("give_back.failed", kind=self._kind, rows=len(tokens), error=str(error))

    async def submit(self, run: Run[R, S, W]) -> None:
        """Commit `run` together with others that are ready; returns when it is settled."""
        settled = anyio.Event()
        self._waiting.append((run, settled))
        self._arrived.set()
        await settled.wait()

    async def serve(self, go_on: Callable[[Taken], object]) -> NoReturn:
        """Settle what is submitted, for ever; what runs again at once is told to `go_on`."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            batch, self._waiting = self._waiting, []
            kept = await self.settle([run for run, _ in batch])
            # A commit is not torn by a cancellation; what would go on after it is gone by then.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if kept is not None:
                go_on(kept)
            for _, settled in batch:
                settled.set()

    async def _commit(
        self, runs: Sequence[Run[R, S, W]], token: int | None, *, patient: bool
    ) -> tuple[list[Claimed], list[Run[R, S, W]]]:
        """Commit and publish; answers the rows that go on under `token`, and the runs left over because their rows are
        locked. Shielded and bounded: a run that was decided is not torn by a cancellation."""
        if not runs:
            return [], []
        results: Mapping[int, Result] = {run.finished.id: Result(Verdict.UNKNOWN) for run in runs}
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
        kept = [result.kept for result in results.values() if result.kept is not None]
        if token is not None:
            self._leases.take((row.id for row in kept), token, sent_at)
        return kept, locked
