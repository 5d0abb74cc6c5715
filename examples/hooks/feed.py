"""Follows the changes of farrier's nodes, and updates a scheduler to match the status of the nodes.

At its start, a hook compares all nodes, and then follows the feed. The feed only names the nodes that changed; the hook
reads their current status. So a change that is reported twice or late does no harm. A failed request ends the process.
A supervisor such as systemd restarts the process, which then compares all nodes again. So a hook has no state that
could be lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Protocol

import anyio
import httpx

from farrier.client import ApiError, AsyncFarrier
from farrier.errors import FarrierError

IN_SERVICE = "active"
"""The status in which a node may get work."""


class Scheduler(Protocol):
    """The system that places work on nodes."""

    async def reconcile(self, statuses: Mapping[str, str]) -> None:
        """Update the nodes with these names to match their statuses. Must be idempotent."""


async def follow(farrier: AsyncFarrier, scheduler: Scheduler) -> None:
    """Reconcile all nodes, and then each node that changes, until an error."""
    position = await farrier.cursor()
    await scheduler.reconcile({node.name: node.status async for node in farrier.nodes()})
    async with aclosing(farrier.watch(after=position, kind="node", layer="status")) as changes:
        async for change in changes:
            await scheduler.reconcile({change.name: await _status(farrier, change.name)})


async def _status(farrier: AsyncFarrier, name: str) -> str:
    try:
        return (await farrier.node(name)).node.status
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return "deleted"


def run(usage: str, headers: Mapping[str, str], scheduler: Callable[[httpx.AsyncClient], Scheduler]) -> None:
    """Run a hook with the arguments FARRIER_URL SCHEDULER_URL. `headers` authenticate it."""
    if len(sys.argv) != 3:
        sys.exit(usage)
    farrier_url, scheduler_url = sys.argv[1:]

    async def work() -> None:
        async with (
            AsyncFarrier(farrier_url, token=os.environ.get("FARRIER_TOKEN")) as farrier,
            httpx.AsyncClient(base_url=scheduler_url, headers=headers, timeout=30) as api,
        ):
            await follow(farrier, scheduler(api))

    try:
        anyio.run(work)
    except (FarrierError, httpx.HTTPError, OSError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")
