"""Machines that boot after a power cut, as a process of their own: `python -m bench.machines HOST PORT CA SECONDS`.

It reads bootstrap tokens from standard input, one a line. Within SECONDS, an agent enrols with each of them, over a
connection of its own, and sends its first heartbeat. Then the process prints the number of seconds that this took.
Elsewhere, each machine has processors of its own; here, they get only what farrier and its client leave.
"""

from __future__ import annotations

import os
import random
import ssl
import sys
import time
from hashlib import sha256
from pathlib import Path

import anyio
import uvloop

from bench import agent_calls

# The other processes of the machine get nearly all of a processor that they want. Where Linux shares processors out
# among groups of processes, one for each session, a nice value counts only in its group, and the group has one, too.
# A process of the class SCHED_IDLE also gives way at once when another one wakes.
_NICE = 19
_GROUP = Path("/proc/self/autogroup")
# Each machine that waits has a connection in the backlog of the server.
_AT_ONCE = 128


async def _main(host: str, port: int, ca: str, seconds: float, tokens: list[str]) -> None:
    tls = ssl.create_default_context(cafile=ca)
    server = agent_calls.Server(host, port, tls)
    slots = anyio.Semaphore(_AT_ONCE)
    began = time.perf_counter()

    async def boot(token: str) -> None:
        await anyio.sleep(random.uniform(0, seconds))
        key_digest = sha256(token.encode()).hexdigest()
        body = {"token": token, "key_digest": key_digest, "boot_id": agent_calls.BOOT}
        async with slots, agent_calls.connected(server) as connection:
            assert await connection.send(agent_calls.request("enroll", body)) == 200, "each token is valid"
            assert await connection.send(agent_calls.beat(token)) == 200, "each key is known"

    async with anyio.create_task_group() as tasks:
        for token in tokens:
            tasks.start_soon(boot, token)
    sys.stdout.write(f"{time.perf_counter() - began}\n")


def _stand_back() -> None:
    os.setsid()
    os.nice(_NICE)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if _GROUP.exists():
        _GROUP.write_text(str(_NICE))


if __name__ == "__main__":
    _stand_back()
    _, given_host, given_port, given_ca, given_seconds = sys.argv
    uvloop.run(_main(given_host, int(given_port), given_ca, float(given_seconds), sys.stdin.read().split()))
