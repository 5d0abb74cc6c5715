"""A wakeup is never lost."""

from __future__ import annotations

import anyio
import pytest

from farrier.controller.signal import Wakeup, until_next

LONG = 3600.0


def test_tasks_that_wait_for_the_next_moment_wake_together() -> None:
    woken = [at + until_next(0.5, at) for at in (7.0, 7.1, 7.48, 7.499)]
    assert woken == pytest.approx([7.5, 7.5, 7.5, 8.0])


async def test_a_signal_set_before_the_wait_ends_it_at_once_and_only_once() -> None:
    signal = Wakeup()
    signal.set()
    assert await signal.wait(LONG)
    assert not await signal.wait(0)


async def test_a_signal_set_during_the_wait_ends_it() -> None:
    signal = Wakeup()
    heard: list[bool] = []

    async def wait() -> None:
        heard.append(await signal.wait(LONG))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            signal.set()
    assert heard == [True]


async def test_a_signal_set_as_the_wait_times_out_is_kept() -> None:
    signal = Wakeup()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await signal.wait(LONG)
    signal.set()
    assert await signal.wait(0)
