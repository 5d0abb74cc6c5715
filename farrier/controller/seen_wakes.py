"""The wakes that runs have seen, and that no commit deletes, because the runs had nothing to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog

from farrier.controller.host import asked
from farrier.protocols import StateIO

_log = structlog.stdlib.get_logger(__name__)

_QUERY_SECONDS = 10.0

# How many wakes one statement deletes. A single statement for very many wakes would exceed its time limit.
_AT_ONCE = 5_000
# While more wakes wait for their deletion, resources with very many wakes are not loaded: the load would read the same
# wakes again.
_MANY = 20_000


class SeenWakes:
    """Wakes that are to be deleted, by resource."""

    def __init__(self) -> None:
        self._wakes: dict[int, Sequence[UUID]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._wakes)

    @property
    def are_many(self) -> bool:
        """Whether so many wakes wait for their deletion that resources with very many wakes should not be loaded."""
        return self._count > _MANY

    def add(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        """Record wakes that runs have seen, or whose deletion failed."""
        for id_, seen in wakes.items():
            if seen:
                self._wakes[id_] = (*self._wakes.get(id_, ()), *seen)
                self._count += len(seen)

    def take(self) -> Mapping[int, Sequence[UUID]]:
        """Remove and return the wakes that one statement deletes."""
        taken: dict[int, Sequence[UUID]] = {}
        left = _AT_ONCE
        while self._wakes and left > 0:
            id_, wakes = self._wakes.popitem()
            taken[id_] = wakes[:left]
            if len(wakes) > left:
                self._wakes[id_] = wakes[left:]
            left -= len(taken[id_])
        self._count -= _AT_ONCE - left
        return taken

    async def delete(self, io: StateIO[Any, Any, Any], kind: str) -> bool:
        """Delete some of the wakes. Returns whether it succeeded."""
        wakes = self.take()
        with asked(
            _QUERY_SECONDS, lambda error: _log.warning("consume.failed", kind=kind, rows=len(wakes), error=error)
        ):
            await io.consume(wakes)
            return True
        self.add(wakes)
        return False
