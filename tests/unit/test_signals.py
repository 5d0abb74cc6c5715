"""Signals are not counted twice when the event loop delivers them twice."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from datetime import timedelta

from farrier.signals import distinct
from tests.support.clock import HandClock


async def test_a_stop_that_is_delivered_twice_counts_once_and_a_later_one_counts_again() -> None:
    clock = HandClock()

    async def received() -> AsyncIterator[signal.Signals]:
        yield signal.SIGHUP
        yield signal.SIGTERM
        yield signal.SIGTERM
        clock.advance(timedelta(seconds=1))
        yield signal.SIGTERM

    counted = [number async for number in distinct(received(), clock)]
    assert counted == [signal.SIGHUP, signal.SIGTERM, signal.SIGTERM]


async def test_another_stop_signal_counts_at_once() -> None:
    async def received() -> AsyncIterator[signal.Signals]:
        yield signal.SIGTERM
        yield signal.SIGINT

    assert [number async for number in distinct(received(), HandClock())] == [signal.SIGTERM, signal.SIGINT]


async def test_every_reload_signal_counts() -> None:
    async def received() -> AsyncIterator[signal.Signals]:
        yield signal.SIGHUP
        yield signal.SIGHUP

    assert [number async for number in distinct(received(), HandClock())] == [signal.SIGHUP] * 2
