"""Repeats recorded calls to a MAAS region without making decisions: `python -m bench.bare_client URL FILE`.

The client is a separate process, as the daemon is. The client makes the calls of FILE, with the same concurrency as
farrier. The client handles the machines one after another, and makes the calls about one machine in their order. Calls
about no machine or about several machines are made in between. From a response, the client reads only the ids that
later calls need. At the end it prints how long the calls took.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import anyio
import httpx
import msgspec

from bench.calls import Made, Told, needed
from farrier.services.maas.service import CONCURRENCY, api_key
from farrier.sim.maas import ADMIN

_KEY = api_key(ADMIN.key)
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# This is longer than the slowest call of a region that is busy with four calls.
_PATIENCE_SECONDS = 60


class Took(msgspec.Struct, frozen=True):
    """The result that the client prints at its end: the duration, and the numbers of calls."""

    seconds: float
    calls: int
    refused: int


def in_line(calls: Sequence[Made]) -> Iterator[Sequence[Made]]:
    """Yield each machine's calls, in the order of the machines' first calls. A call about several machines follows when
    the calls of all these machines have begun, or at its original place if this is later."""
    machines: dict[str, list[Made]] = {}
    others: dict[int, list[Made]] = defaultdict(list)
    places: dict[str, int] = {}
    for made in calls:
        if made.machine is not None:
            places.setdefault(made.machine, len(places))
            machines.setdefault(made.machine, []).append(made)
    for number, made in enumerate(calls):
        if made.machine is None:
            late = number * len(places) // len(calls)
            others[max((late, *(places[name] for name in needed(made))))].append(made)
    for place, of_one in enumerate(machines.values()):
        yield of_one
        for made in others.get(place, ()):
            yield [made]


class _Bare:
    """The tasks that make the calls of a list."""

    def __init__(self, http: httpx.AsyncClient, calls: Sequence[Made]) -> None:
        self._http = http
        self._line = in_line(calls)
        self._ids: dict[str, str] = {}
        self._there = {made.machine: anyio.Event() for made in calls if made.machine is not None}
        self.refused = 0

    async def work(self) -> None:
        """Make all calls. A call waits only for calls that began earlier."""
        for calls in self._line:
            for made in calls:
                await self._make(made)

    async def _make(self, made: Made) -> None:
        for name in needed(made):
            await self._there[name].wait()
        url = made.to(self._ids)
        content = urlencode(made.form) if made.form else None
        headers = {**_KEY.headers(time.time()), **(_FORM if content else {})}
        answer = await self._http.request(made.method, url, content=content, headers=headers)
        self.refused += answer.is_error
        if made.machine is not None and (made.creates or made.path.endswith(f"/machines/<{made.machine}>/")):
            if not answer.is_error:
                self._ids |= msgspec.json.decode(answer.content, type=Told).ids(made.machine)
            self._there[made.machine].set()


async def make(url: str, calls: Sequence[Made]) -> Took:
    """Make all `calls` to the region at `url`."""
    parts = urlsplit(url)
    async with httpx.AsyncClient(
        base_url=f"{parts.scheme}://{parts.netloc}",
        timeout=_PATIENCE_SECONDS,
        trust_env=False,
        limits=httpx.Limits(max_keepalive_connections=CONCURRENCY),
    ) as http:
        bare = _Bare(http, calls)
        began = time.perf_counter()
        async with anyio.create_task_group() as workers:
            for _ in range(CONCURRENCY):
                workers.start_soon(bare.work)
        return Took(seconds=time.perf_counter() - began, calls=len(calls), refused=bare.refused)


def main(url: str, file: str) -> None:
    """Run the process."""
    calls = msgspec.json.decode(Path(file).read_bytes(), type=list[Made])
    took = anyio.run(make, url, calls, backend_options={"use_uvloop": True})
    sys.stdout.buffer.write(msgspec.json.encode(took) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
