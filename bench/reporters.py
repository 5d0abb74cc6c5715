"""Agents that report, as a process of their own: `python -m bench.reporters HOST PORT CA INTERVAL`.

It reads the keys of agents from standard input, one a line. Each agent keeps a connection, and sends a heartbeat every
INTERVAL seconds. When each has sent its first, the process prints a line. It runs until it is terminated.
"""

from __future__ import annotations

import os
import random
import resource
import ssl
import sys
from contextlib import AsyncExitStack
from itertools import count

import anyio
import uvloop

from bench import agent_calls

# Elsewhere, each machine has processors of its own.
_NICE = 19
_CONNECTING = 64


async def _main(host: str, port: int, ca: str, interval: float, keys: list[str]) -> None:
    server = agent_calls.Server(host, port, ssl.create_default_context(cafile=ca))
    connecting, begun = anyio.Semaphore(_CONNECTING), count(1)

    async def report(key: str) -> None:
        beat = agent_calls.beat(key)
        async with AsyncExitStack() as stack:
            async with connecting:
                connection = await stack.enter_async_context(agent_calls.connected(server))
                assert await connection.send(beat) == 200, "each agent is known"
            if next(begun) == len(keys):
                sys.stdout.write("all report\n")
                sys.stdout.flush()
            await anyio.sleep(random.uniform(0, interval))
            while True:
                due = anyio.current_time() + interval
                assert await connection.send(beat) == 200, "each agent is known"
                await anyio.sleep(max(0.0, due - anyio.current_time()))

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(report, key)


if __name__ == "__main__":
    os.nice(_NICE)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _, given_host, given_port, given_ca, given_interval = sys.argv
    uvloop.run(_main(given_host, int(given_port), given_ca, float(given_interval), sys.stdin.read().split()))
