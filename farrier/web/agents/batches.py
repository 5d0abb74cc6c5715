"""Collects heartbeats, so that those of a short time are one statement.

A server of 10,000 agents gets 300 heartbeats a second. In one statement each, they would cost several times as much. A
heartbeat whose agent another transaction has locked is tried alone afterwards, and delays no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.machine.agent import Beat, BeatAnswer, BeatVerdict
from farrier.protocols import AgentCalls

_log = structlog.stdlib.get_logger(__name__)

# An agent does not notice this delay, and a statement costs as much as ten more heartbeats in it.
COLLECT_SECONDS = 0.1
# A statement with more heartbeats would hold the rows of agents for longer than a commit waits for a lock.
MOST_IN_A_BATCH = 250
# Heartbeats of two seconds of a fleet of 100,000 nodes. Further ones are refused, and their agents try again.
MOST_WAITING = 8192
# Batches that the database works on at the same time: one, and the next.
_BATCHES = 2
# Heartbeats that wait for a lock. Each has a connection of its own.
_ALONE = 4
_MOST_ALONE = 64


class Overloaded(Exception):
    """The server has too many requests, and refuses this one."""


class _WaitingBeat:
    """A heartbeat that waits for its answer."""

    __slots__ = ("answer", "beat")

    def __init__(self, beat: Beat) -> None:
        self.beat = beat
        self.answer: asyncio.Future[BeatAnswer] = asyncio.get_running_loop().create_future()

    def end(self, answer: BeatAnswer | Exception) -> None:
        if self.answer.done():  # nobody waits any more
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Batches:
    """The heartbeats of one server."""

    def __init__(
        self, calls: AgentCalls, *, collect_seconds: float = COLLECT_SECONDS, most_in_a_batch: int = MOST_IN_A_BATCH
    ) -> None:
        self._calls = calls
        self._collect_seconds = collect_seconds
        self._most = most_in_a_batch
        self._waiting: deque[_WaitingBeat] = deque()
        self._alone = 0
        self._some = anyio.Event()
        self._batches = anyio.Semaphore(_BATCHES)
        self._patient = anyio.Semaphore(_ALONE)
        self._runs = False

    async def add(self, beat: Beat) -> BeatAnswer:
        """Send a heartbeat with others. Raises `Overloaded`, `DatabaseUnreachable` and `RefusedByModel`."""
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded
        if not self._runs:
            raise DatabaseUnreachable("the configured server", "this server is starting or stopping")
        slot = _WaitingBeat(beat)
        self._waiting.append(slot)
        self._some.set()
        return await slot.answer

    async def run(self) -> None:
        """Send the collected heartbeats until cancelled. Those that wait then get an error."""
        self._runs = True
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._some.wait()
                    await anyio.sleep(self._collect_seconds)
                    while self._waiting:
                        await self._batches.acquire()
                        tasks.start_soon(self._send, self._next(), tasks)
                    self._some = anyio.Event()
        finally:
            self._runs = False
            while self._waiting:
                self._waiting.popleft().end(DatabaseUnreachable("the configured server", "this server is stopping"))

    def _next(self) -> Sequence[_WaitingBeat]:
        """Take the next batch. An agent has one heartbeat in a batch; a further one goes into the next."""
        taken: dict[str, _WaitingBeat] = {}
        later: list[_WaitingBeat] = []
        while self._waiting and len(taken) < self._most:
            slot = self._waiting.popleft()
            if slot.beat.key in taken:
                later.append(slot)
            else:
                taken[slot.beat.key] = slot
        self._waiting.extendleft(reversed(later))
        return list(taken.values())

    async def _send(self, slots: Sequence[_WaitingBeat], tasks: anyio.abc.TaskGroup) -> None:
        try:
            try:
                answers: Sequence[BeatAnswer | Exception] = await self._calls.beat([slot.beat for slot in slots])
            except DatabaseUnreachable as error:
                answers = [error] * len(slots)
            except RefusedByModel as error:
                _log.warning("agents.batch_refused", heartbeats=len(slots), error=str(error))
                answers = [await self._one(slot) for slot in slots] if len(slots) > 1 else [error]
        except BaseException:
            answers = [DatabaseUnreachable("the configured server", "this server is stopping")] * len(slots)
            raise
        finally:
            self._batches.release()
            self._settle(slots, answers, tasks)

    def _settle(
        self, slots: Sequence[_WaitingBeat], answers: Sequence[BeatAnswer | Exception], tasks: anyio.abc.TaskGroup
    ) -> None:
        for slot, answer in zip(slots, answers, strict=True):
            if not (isinstance(answer, BeatAnswer) and answer.verdict is BeatVerdict.LOCKED):
                slot.end(answer)
            elif self._alone >= _MOST_ALONE:
                slot.end(Overloaded())
            else:
                self._alone += 1
                tasks.start_soon(self._wait_alone, slot)

    async def _wait_alone(self, slot: _WaitingBeat) -> None:
        try:
            async with self._patient:
                slot.end(await self._one(slot, patient=True))
        finally:
            self._alone -= 1
            slot.end(DatabaseUnreachable("the configured server", "this server is stopping"))

    async def _one(self, slot: _WaitingBeat, *, patient: bool = False) -> BeatAnswer | Exception:
        try:
            (answer,) = await self._calls.beat([slot.beat], patient=patient)
        except (DatabaseUnreachable, RefusedByModel) as error:
            return error
        return answer
