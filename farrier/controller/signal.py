"""Signals between tasks, and the moments at which tasks wake. No signal is lost."""

from __future__ import annotations

import asyncio

import anyio

# A timer may end this part of its time too early, because the event loop counts milliseconds.
_MARGIN = 0.02


async def next_moment(seconds: float) -> None:
    """Sleep until the clock of the event loop reads a multiple of this time. Tasks that sleep so wake together: each
    wake of an idle process costs more CPU time than most of them use."""
    await asyncio.sleep(until_next(seconds, asyncio.get_running_loop().time()))


def until_next(seconds: float, now: float) -> float:
    """Return the time from `now` until the next multiple of `seconds`."""
    return (int(now / seconds + _MARGIN) + 1) * seconds - now


class Bell:
    """A signal to any number of tasks. Each task checks for work before it waits for the signal."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event.clear()

    async def wait(self) -> None:
        """Wait for the next ring."""
        await self._event.wait()


class Wakeup:
    """A signal from any number of tasks to one task. If the signal is set before or during the wait, the wait ends."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Wake the waiting task. May be called any number of times."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for the next signal, at most this many seconds. Returns whether the signal was set."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        was_set = self._event.is_set()
        if was_set:
            self._event = anyio.Event()
        return was_set
