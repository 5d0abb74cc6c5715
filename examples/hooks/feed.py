"""Follows the change feed of farrier, and reports the status of each changed node to a scheduler.

The feed only names nodes that changed; the status is read when it is needed. So a change that is reported twice or late
does no harm. Any failure ends the process: a supervisor such as systemd restarts it, and it continues at its cursor.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import httpx

IN_SERVICE = "active"
"""The status of a node that may get work."""

Reconcile: TypeAlias = Callable[[Mapping[str, str]], Awaitable[None]]
"""Makes the scheduler agree with these statuses, by the name of the node. Must be idempotent."""

# farrier sends a line every 15 s at the latest.
_SILENCE_SECONDS = 60.0


def client(url: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """The client of an API."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=httpx.Timeout(10.0, read=_SILENCE_SECONDS))


def bearer(token: str) -> dict[str, str]:
    """The header of a request with a token; none without a token."""
    return {"authorization": f"Bearer {token}"} if token else {}


async def follow(farrier: httpx.AsyncClient, cursor: Path, reconcile: Reconcile) -> None:
    """Reconcile all nodes, unless `cursor` has a position in the feed; then each node that changes, until an error."""
    known = _read(cursor)
    async for position, name in _changes(farrier, known):
        if name:
            await reconcile({name: await _status(farrier, name)})
        elif not known:
            await reconcile({node["name"]: node["status"] async for node in _inventory(farrier)})
        _write(cursor, position)
        known = position


async def _changes(farrier: httpx.AsyncClient, after: str) -> AsyncIterator[tuple[str, str]]:
    """Each position of the feed with the name of a node whose status changed; empty if only time has passed."""
    wanted = {"kind": "node", "layer": "status"}
    headers = {"Last-Event-ID": after} if after else {}
    async with farrier.stream("GET", "/api/v1/history/stream", params=wanted, headers=headers) as response:
        response.raise_for_status()
        position = name = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                position = value
            elif field == "data":
                name = json.loads(value)["name"]
            elif not line and position:  # the end of an event
                yield position, name
                position = name = ""
    raise ConnectionError("farrier has closed the stream")


async def _status(farrier: httpx.AsyncClient, name: str) -> str:
    response = await farrier.get(f"/api/v1/nodes/{name}")
    if response.status_code == httpx.codes.NOT_FOUND:
        return "deleted"
    status: str = response.raise_for_status().json()["node"]["status"]
    return status


async def _inventory(farrier: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    after: str | None = ""
    while after is not None:
        page = (await farrier.get("/api/v1/nodes", params={"after": after, "limit": 1000})).raise_for_status().json()
        for node in page["nodes"]:
            yield node
        after = page["next"]


def _read(cursor: Path) -> str:
    return cursor.read_text() if cursor.exists() else ""


def _write(cursor: Path, position: str) -> None:
    """Replace the file at once: a crash leaves the old position or the new one."""
    new = cursor.with_suffix(".new")
    new.write_text(position)
    os.replace(new, cursor)
