"""Requests that a server collects are sent in batches, and some kinds only at a steady rate."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from farrier.web.agents.batches import Collected, Overloaded, Pace


async def test_requests_of_a_kind_with_a_rate_wait_for_their_time() -> None:
    """The second batch uses the time of the first, which came after a pause."""
    sizes: list[int] = []

    async def send(batch: Sequence[str], *, patient: bool = False) -> Sequence[str]:
        sizes.append(len(batch))
        return batch

    pace = Pace(collect_seconds=0, most=2, most_waiting=10, at_once=1, a_second=1 / 3600)
    collected = Collected[str, str](send, str, pace, anyio.Semaphore(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collected.run)
        await anyio.wait_all_tasks_blocked()
        for request in "abcdef":
            tasks.start_soon(collected.add, request)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert sizes == [2, 2], "the third batch is due in two hours"


async def test_a_request_is_refused_at_once_while_as_many_wait_as_may() -> None:
    refused: list[str] = []

    async def send(batch: Sequence[str], *, patient: bool = False) -> Sequence[str]:
        return batch

    async def ask(request: str) -> None:
        try:
            await collected.add(request)
        except Overloaded:
            refused.append(request)

    pace = Pace(collect_seconds=0, most=1, most_waiting=3, at_once=1, a_second=1 / 3600)
    collected = Collected[str, str](send, str, pace, anyio.Semaphore(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collected.run)
        await anyio.wait_all_tasks_blocked()
        for request in "abcde":
            tasks.start_soon(ask, request)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, "f")  # the first two were sent, and left their places
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert refused == ["d", "e"]
