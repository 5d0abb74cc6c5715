"""Runs that wait to be committed: whatever is there when the commit before ends goes into the next one.

Made by the settler. A commit of a few runs costs little more than one of a single run, so those that end one by one
share it. In a crowd the line also waits for more of them, twice as long as its last commit took: half as many commits
leave that much time to everybody. Whoever comes alone, or with few, is never kept waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NoReturn, TypeAlias, TypeVar

import anyio

from farrier.controller.attempt import Run
from farrier.protocols import Clock

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

# So many shared a commit: they come faster than one by one they could be committed.
_CROWD = 4
# Of the last commit's time. More would save little, and be felt.
_SHARE = 2
# Seconds. Whoever waits for what is committed here would feel more.
_LONGEST_PAUSE = 0.02

Runs: TypeAlias = Sequence[Run[R, S, W]]


class _Waiting(Generic[R, S, W]):
    """Runs of one pass or step, and those of them that were left over."""

    def __init__(self, runs: Runs[R, S, W]) -> None:
        self.runs = runs
        self.left: Runs[R, S, W] = ()
        self.done = anyio.Event()


class Line(Generic[R, S, W]):
    """One line, served by one task. `commit` answers the runs that are left over because their rows are locked."""

    def __init__(
        self,
        commit: Callable[[Runs[R, S, W]], Awaitable[Runs[R, S, W]]],
        clock: Clock,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._commit = commit
        self._clock = clock
        self._pause = pause
        self._waiting: list[_Waiting[R, S, W]] = []
        self._arrived = anyio.Event()

    async def join(self, runs: Runs[R, S, W]) -> Runs[R, S, W]:
        """Have `runs` committed together with what else waits; answers those that are left over."""
        mine = _Waiting(runs)
        self._waiting.append(mine)
        self._arrived.set()
        await mine.done.wait()
        return mine.left

    async def serve(self) -> NoReturn:
        """Commit what joins, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            batch = self._next()
            began = self._clock.monotonic()
            left = {id(run) for run in await self._commit([run for each in batch for run in each.runs])}
            for each in batch:
                each.left = [run for run in each.runs if id(run) in left]
                each.done.set()
            if len(batch) >= _CROWD:
                await self._pause(min(_SHARE * (self._clock.monotonic() - began), _LONGEST_PAUSE))

    def _next(self) -> list[_Waiting[R, S, W]]:
        """All that wait, but no row twice: of two claims of one row, the second is committed after the first."""
        seen: set[int] = set()
        batch: list[_Waiting[R, S, W]] = []
        later: list[_Waiting[R, S, W]] = []
        for each in self._waiting:
            ids = {run.finished.id for run in each.runs}
            (later if ids & seen else batch).append(each)
            seen |= ids
        self._waiting = later
        if later:
            self._arrived.set()
        return batch
