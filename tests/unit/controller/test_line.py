"""Commits are shared by those who come together, and nobody waits for company that does not come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from farrier.controller.attempt import Run
from farrier.controller.line import Line
from farrier.model.runs import Due, Finished
from tests.support.clock import HandClock

AnyRun = Run[Any, Any, Any]


def run(id_: int, token: int = 1) -> AnyRun:
    return Run(Finished(id=id_, token=token, version=1, due=Due.PERIODIC, outcome="wait"), 0.0, None)


class Counter:
    """Where runs are committed: each commit ends, and each pause, when the test says so."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.clock = HandClock()
        self.line: Line[Any, Any, Any] = Line(self._commit, self.clock, self._pause)
        self.commits: list[list[int]] = []
        self.pauses: list[float] = []
        self.through: list[int] = []
        self.locked: set[int] = set()
        self._go = anyio.Event()
        group.start_soon(self.line.serve)

    async def bring(self, *runs: AnyRun) -> None:
        """Somebody brings these and waits for them; returns when nothing goes on by itself."""
        self.group.start_soon(self._join, runs)
        await anyio.wait_all_tasks_blocked()

    async def go(self, seconds: float = 0.0) -> None:
        """What is under way ends, and took so long."""
        self.clock.now += seconds
        self._go.set()
        await anyio.wait_all_tasks_blocked()

    async def _join(self, runs: Sequence[AnyRun]) -> None:
        left = await self.line.join(runs)
        assert {each.finished.id for each in left} == self.locked & {each.finished.id for each in runs}
        self.through += [each.finished.id for each in runs]

    async def _commit(self, runs: Sequence[AnyRun]) -> Sequence[AnyRun]:
        self.commits.append([each.finished.id for each in runs])
        await self._told()
        return [each for each in runs if each.finished.id in self.locked]

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._told()

    async def _told(self) -> None:
        self._go = anyio.Event()
        await self._go.wait()


@pytest.fixture
async def counter() -> AsyncIterator[Counter]:
    async with anyio.create_task_group() as group:
        yield Counter(group)
        group.cancel_scope.cancel()


async def test_whoever_comes_alone_is_committed_at_once_and_so_is_the_next(counter: Counter) -> None:
    await counter.bring(run(1))
    await counter.go(0.004)
    await counter.bring(run(2))
    assert counter.commits == [[1], [2]]
    assert counter.pauses == []


async def test_those_who_come_during_a_commit_share_the_next(counter: Counter) -> None:
    await counter.bring(run(1))
    await counter.bring(run(2), run(3))
    await counter.bring(run(4))
    assert counter.through == []
    await counter.go()
    assert counter.commits == [[1], [2, 3, 4]]
    assert counter.through == [1]
    await counter.go()
    assert sorted(counter.through) == [1, 2, 3, 4]


async def test_after_a_crowd_the_line_waits_for_more_twice_as_long_as_its_commit_took(counter: Counter) -> None:
    for number in (1, 2, 3, 4, 5):
        await counter.bring(run(number))
    await counter.go()
    await counter.go(0.004)
    assert sorted(counter.through) == [1, 2, 3, 4, 5], "who is through waits for nobody"
    assert counter.pauses == [pytest.approx(0.008)]
    await counter.bring(run(6))
    await counter.bring(run(7))
    assert counter.commits == [[1], [2, 3, 4, 5]]
    await counter.go()
    assert counter.commits == [[1], [2, 3, 4, 5], [6, 7]]


async def test_a_few_who_share_a_commit_keep_nobody_waiting(counter: Counter) -> None:
    for number in (1, 2, 3, 4):
        await counter.bring(run(number))
    await counter.go()
    await counter.go(0.004)
    await counter.bring(run(5))
    assert counter.commits == [[1], [2, 3, 4], [5]]
    assert counter.pauses == []


async def test_a_commit_that_hung_does_not_make_the_next_ones_wait_as_long(counter: Counter) -> None:
    for number in (1, 2, 3, 4, 5):
        await counter.bring(run(number))
    await counter.go()
    await counter.go(9.0)
    assert counter.pauses == [pytest.approx(0.02)]


async def test_two_claims_of_one_row_are_committed_one_after_the_other(counter: Counter) -> None:
    await counter.bring(run(1))
    await counter.bring(run(2, token=7))
    await counter.bring(run(2, token=8), run(3))
    await counter.go()
    assert counter.commits == [[1], [2]]
    await counter.go()
    assert counter.commits == [[1], [2], [2, 3]]


async def test_each_is_told_which_of_its_own_are_left_over(counter: Counter) -> None:
    counter.locked = {2, 4}
    await counter.bring(run(1))
    await counter.bring(run(2), run(3))
    await counter.bring(run(4))
    await counter.go()
    await counter.go()
    assert sorted(counter.through) == [1, 2, 3, 4]
