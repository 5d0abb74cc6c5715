"""Collects heartbeats and enrolments, so that those of a short time are one statement.

A server of 10,000 agents gets 300 heartbeats a second, and 200 enrolments a second after a power cut. In one statement
each, heartbeats would cost several times as much, and enrolments a quarter more. One whose rows another transaction has
locked is tried alone afterwards, and delays no other.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

import anyio
import msgspec
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.model.machine.agent import Beat, BeatAnswer, BeatVerdict, Enrolling, Enrolment
from farrier.protocols import AgentCalls
from farrier.web.agents.rest import Rest

_log = structlog.stdlib.get_logger(__name__)

# An agent does not notice this delay, and a statement costs as much as ten more heartbeats in it.
COLLECT_SECONDS = 0.1
# Seven enrolments in a statement cost as little each as twenty, and a reaction waits less for a short statement.
_COLLECT_ENROLMENTS = 0.03
_MOST_ENROLMENTS = 7
# Enrolments a second. After a power cut, the controller reacts to others the sooner the more even they are, and ten
# thousand machines enrol within a minute. An agent waits 20 s for its answer, so those of 10 s may wait.
_ENROLMENTS_A_SECOND = 175.0
_MOST_ENROLMENTS_WAITING = 1750
# A statement with more heartbeats would hold the rows of agents for longer than a commit waits for a lock.
MOST_IN_A_BATCH = 250
# Heartbeats of two seconds of a fleet of 100,000 nodes. Further ones are refused, and their agents try again.
MOST_WAITING = 8192
# Batches that the database works on at the same time: one, and the next.
_BATCHES = 2
# Requests that wait for a lock. Each has a connection of its own.
_ALONE = 4
_MOST_ALONE = 64
_LOCKED = "55P03"  # lock_not_available

Q = TypeVar("Q")
A = TypeVar("A")
Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class Overloaded(Exception):
    """The server has too many requests, and refuses this one."""


class SendBatch(Protocol[Q_contra, A_co]):
    """Sends requests in one statement, and returns the answer to each. Only with `patient`, it waits for locks."""

    async def __call__(
        self, batch: Sequence[Q_contra], *, patient: bool = False
    ) -> Sequence[A_co | RefusedByModel]: ...


class _WaitingRequest(Generic[Q, A]):
    """A request that waits for its answer."""

    __slots__ = ("answer", "request")

    def __init__(self, request: Q) -> None:
        self.request = request
        self.answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()

    def end(self, answer: A | Exception) -> None:
        if self.answer.done():  # nobody waits any more
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests of one kind are sent."""

    collect_seconds: float
    most: int
    """How many requests one batch has at most."""
    most_waiting: int
    at_once: int
    """How many batches are sent at the same time."""
    a_second: float = math.inf
    """How many requests are sent in each second."""


class Collected(Generic[Q, A]):
    """The requests of one kind."""

    def __init__(
        self,
        send: SendBatch[Q, A],
        agent: Callable[[Q], str],
        pace: Pace,
        patient: anyio.Semaphore,
    ) -> None:
        """`agent` identifies the agent of a request, and `patient` limits how many requests wait for locks."""
        self._call = send
        self._agent = agent
        self._pace = pace
        self._waiting: deque[_WaitingRequest[Q, A]] = deque()
        self._alone = 0
        self._some = anyio.Event()
        self._batches = anyio.Semaphore(pace.at_once)
        self._patient = patient
        self._runs = False

    @property
    def some_wait(self) -> bool:
        """Whether requests wait to be sent."""
        return self._some.is_set()

    async def add(self, request: Q) -> A:
        """Send a request with others. Raises `Overloaded`, `DatabaseUnreachable` and `RefusedByModel`."""
        if len(self._waiting) >= self._pace.most_waiting:
            raise Overloaded
        if not self._runs:
            raise DatabaseUnreachable("the configured server", "this server is starting or stopping")
        slot = _WaitingRequest[Q, A](request)
        self._waiting.append(slot)
        self._some.set()
        return await slot.answer

    async def run(self) -> None:
        """Send the collected requests until cancelled. Those that wait then get an error."""
        self._runs = True
        due = -math.inf
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._some.wait()
                    await anyio.sleep(self._pace.collect_seconds)
                    while self._waiting:
                        await self._batches.acquire()
                        batch = self._next()
                        tasks.start_soon(self._send, batch, tasks)
                        due = max(due + len(batch) / self._pace.a_second, anyio.current_time())
                        await anyio.sleep_until(due)
                    self._some = anyio.Event()
        finally:
            self._runs = False
            while self._waiting:
                self._waiting.popleft().end(DatabaseUnreachable("the configured server", "this server is stopping"))

    def _next(self) -> Sequence[_WaitingRequest[Q, A]]:
        """Take the next batch. An agent has one request in a batch; a further one goes into the next."""
        taken: dict[str, _WaitingRequest[Q, A]] = {}
        later: list[_WaitingRequest[Q, A]] = []
        while self._waiting and len(taken) < self._pace.most:
            slot = self._waiting.popleft()
            agent = self._agent(slot.request)
            if agent in taken:
                later.append(slot)
            else:
                taken[agent] = slot
        self._waiting.extendleft(reversed(later))
        return list(taken.values())

    async def _send(self, slots: Sequence[_WaitingRequest[Q, A]], tasks: anyio.abc.TaskGroup) -> None:
        try:
            try:
                answers: Sequence[A | Exception] = await self._call([slot.request for slot in slots])
            except DatabaseUnreachable as error:
                answers = [error] * len(slots)
            except RefusedByModel as error:
                _log.warning("agents.batch_refused", requests=len(slots), error=str(error))
                answers = [await self._one(slot) for slot in slots] if len(slots) > 1 else [error]
        except BaseException:
            answers = [DatabaseUnreachable("the configured server", "this server is stopping")] * len(slots)
            raise
        finally:
            self._batches.release()
            self._settle(slots, answers, tasks)

    def _settle(
        self, slots: Sequence[_WaitingRequest[Q, A]], answers: Sequence[A | Exception], tasks: anyio.abc.TaskGroup
    ) -> None:
        for slot, answer in zip(slots, answers, strict=True):
            if not _is_locked(answer):
                slot.end(answer)
            elif self._alone >= _MOST_ALONE:
                slot.end(Overloaded())
            else:
                self._alone += 1
                tasks.start_soon(self._wait_alone, slot)

    async def _wait_alone(self, slot: _WaitingRequest[Q, A]) -> None:
        try:
            async with self._patient:
                slot.end(await self._one(slot, patient=True))
        finally:
            self._alone -= 1
            slot.end(DatabaseUnreachable("the configured server", "this server is stopping"))

    async def _one(self, slot: _WaitingRequest[Q, A], *, patient: bool = False) -> A | Exception:
        try:
            (answer,) = await self._call([slot.request], patient=patient)
        except (DatabaseUnreachable, RefusedByModel) as error:
            return error
        return answer


def _is_locked(answer: object) -> bool:
    """Return whether another transaction has locked rows of the request."""
    if isinstance(answer, BeatAnswer):
        return answer.verdict is BeatVerdict.LOCKED
    return isinstance(answer, RefusedByModel) and answer.sqlstate == _LOCKED


class Batches:
    """The heartbeats and enrolments of one server."""

    def __init__(
        self,
        calls: AgentCalls,
        *,
        collect_seconds: float = COLLECT_SECONDS,
        most_in_a_batch: int = MOST_IN_A_BATCH,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`sleep` stops the process for some seconds."""
        collected = partial(Collected, patient=anyio.Semaphore(_ALONE))
        self.beats: Collected[Beat, BeatAnswer] = collected(
            calls.beat,
            attrgetter("key"),
            Pace(collect_seconds=collect_seconds, most=most_in_a_batch, most_waiting=MOST_WAITING, at_once=_BATCHES),
        )
        self.enrolments: Collected[Enrolment, Enrolling] = collected(
            calls.enroll,
            attrgetter("token"),
            Pace(
                collect_seconds=min(collect_seconds, _COLLECT_ENROLMENTS),
                most=min(most_in_a_batch, _MOST_ENROLMENTS),
                most_waiting=_MOST_ENROLMENTS_WAITING,
                at_once=1,
                a_second=_ENROLMENTS_A_SECOND,
            ),
        )
        # Each batch of enrolments needs several turns of the event loop.
        self._rest = Rest(lambda: self.enrolments.some_wait, sleep)

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Send a heartbeat. See `Collected.add`."""
        self._rest.after()
        return await self.beats.add(beat)

    async def run(self) -> None:
        """Send what is collected until cancelled. Requests that wait then get an error."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.beats.run)
            tasks.start_soon(self.enrolments.run)
