"""A server that receives few heartbeats rests after them, so that it serves several each time it wakes."""

from __future__ import annotations

import anyio.lowlevel
import pytest

from farrier.web.agents import rest


async def rests_after(heartbeats: int, *, hurried: bool = False) -> list[float]:
    """The rests that follow so many heartbeats that were received together."""
    taken: list[float] = []
    server = rest.Rest(lambda: hurried, taken.append)
    for _ in range(heartbeats):
        server.after()
    assert taken == [], "the heartbeats are served first"
    await anyio.lowlevel.checkpoint()
    return taken


@pytest.mark.parametrize("heartbeats", [1, rest.ENOUGH - 1])
async def test_a_server_rests_once_after_few_heartbeats(heartbeats: int) -> None:
    assert await rests_after(heartbeats) == [rest.SECONDS]


async def test_a_server_with_enough_to_do_does_not_rest() -> None:
    assert await rests_after(rest.ENOUGH) == []


async def test_a_hurried_server_does_not_rest() -> None:
    assert await rests_after(1, hurried=True) == []


async def test_a_server_rests_again_after_the_next_heartbeat() -> None:
    taken: list[float] = []
    server = rest.Rest(lambda: False, taken.append)
    for _ in range(2):
        server.after()
        await anyio.lowlevel.checkpoint()
    assert len(taken) == 2
    await anyio.lowlevel.checkpoint()
    assert len(taken) == 2, "a server without heartbeats waits for them"
