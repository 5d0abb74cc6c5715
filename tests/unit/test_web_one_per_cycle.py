"""The order in which the HTTP server begins requests: other tasks of the process get their turns in between."""

from __future__ import annotations

from itertools import pairwise

import anyio
from anyio.lowlevel import checkpoint
from starlette.types import Message, Receive, Scope, Send

from farrier.web.one_per_cycle import OnePerCycle

REQUESTS = 50


async def nothing() -> Message:
    return {"type": "http.disconnect"}


async def nowhere(_message: Message) -> None:
    pass


async def test_another_task_runs_between_any_two_requests_that_arrive_together() -> None:
    happened: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        happened.append(scope["path"])

    async def other() -> None:
        while len(happened) < 2 * REQUESTS:
            happened.append("other")
            await checkpoint()

    paced = OnePerCycle(app)
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        for number in range(REQUESTS):
            group.start_soon(paced, {"type": "http", "path": f"/{number}"}, nothing, nowhere)
    assert [each for each in happened if each != "other"] == [f"/{number}" for number in range(REQUESTS)]
    assert not [pair for pair in pairwise(happened) if "other" not in pair]


async def test_a_request_in_progress_does_not_delay_the_next_one() -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        if scope["path"] == "/slow":
            begun.set()
            await go_on.wait()
        else:
            go_on.set()

    paced = OnePerCycle(app)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(paced, {"type": "http", "path": "/slow"}, nothing, nowhere)
            await begun.wait()
            await paced({"type": "http", "path": "/quick"}, nothing, nowhere)
