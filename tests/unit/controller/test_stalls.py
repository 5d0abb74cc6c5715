"""Work is awaited as by `await`: results, errors and cancellations pass, and only long parts are reported."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from farrier.controller import runner
from farrier.controller.runner import watched


async def test_the_result_or_the_error_of_the_work_is_passed_on() -> None:
    async def works() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def fails() -> int:
        await anyio.lowlevel.checkpoint()
        raise ValueError("broken")

    reported: list[float] = []
    assert await watched(works(), reported.append) == 7
    with pytest.raises(ValueError, match="broken"):
        await watched(fails(), reported.append)
    with pytest.raises(TypeError, match="await"):
        await watched(None, reported.append)  # type: ignore[arg-type]
    assert reported == []


async def test_the_work_receives_a_cancellation_and_an_error_of_what_it_awaits() -> None:
    received: list[str] = []
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def works() -> None:
        try:
            await future
        except ValueError:
            received.append("error")
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            received.append("cancelled")
            raise

    asyncio.get_running_loop().call_soon(future.set_exception, ValueError())
    with anyio.move_on_after(0.01) as scope:
        await watched(works(), lambda _seconds: None)
    assert (received, scope.cancelled_caught) == (["error", "cancelled"], True)


async def test_a_part_that_takes_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BLOCKED", 0.0)
    reported: list[float] = []
    await watched(anyio.lowlevel.checkpoint(), reported.append)
    assert reported and all(seconds > 0 for seconds in reported)
