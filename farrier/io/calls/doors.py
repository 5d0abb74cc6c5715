"""The pulse of a door: a small commit that lists the server process, and shows that it runs and reaches the database.
Implements `protocols.Door`.
"""

from __future__ import annotations

import socket
from typing import Any, NoReturn, assert_never
from uuid import uuid4

import anyio
import structlog

import farrier
from farrier.errors import DatabaseUnreachable
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.model.loop.doors import DoorKind

_log = structlog.stdlib.get_logger(__name__)

_AGENTS = statements.load("doors/agents")
_PAGES = statements.load("doors/pages")
_LEAVE = statements.load("doors/leave")

# A fifth of the time after which a silent door counts as dead.
_PULSE_SECONDS = 2.0
# A pulse that takes longer is repeated, so that a door misses no more than two pulses because of one lost packet.
_ANSWER_SECONDS = 4.0
# The last statement of a door that stops.
_LEAVE_SECONDS = 2.0


class PostgresDoor:
    """The pulse of one server process."""

    def __init__(self, connections: Pool, kind: DoorKind, name: str | None = None) -> None:
        self._pool = connections
        self._kind = kind
        self._name = name or socket.gethostname()
        self._reached = False
        self._is_listed = True
        self.id = uuid4()

    def reached(self) -> None:
        self._reached = True

    async def run(self) -> NoReturn:
        try:
            while True:
                try:
                    await self.beat()
                except DatabaseUnreachable as error:
                    _log.warning("door.pulse_failed", error=str(error))
                await anyio.sleep(_PULSE_SECONDS)
        finally:
            await self._leave()

    async def beat(self) -> None:
        """Commit one pulse. Raises `DatabaseUnreachable`."""
        reached, self._reached = self._reached, False
        try:
            listed = await self._pulse(reached=reached)
        except BaseException:
            self._reached |= reached
            raise
        if self._is_listed and not listed:
            _log.warning("door.not_listed", kind=self._kind, reason="too many doors of this kind are listed")
        self._is_listed = listed

    async def _pulse(self, *, reached: bool) -> bool:
        of_this = self.id, self._name, farrier.__version__
        match self._kind:
            case DoorKind.AGENTS:
                return bool(await self._fetch(_AGENTS, *of_this, reached))
            case DoorKind.PAGES:
                return bool(await self._fetch(_PAGES, *of_this))
            case _ as never:
                assert_never(never)

    async def _leave(self) -> None:
        """Delete the row, also while the caller is being cancelled. If this fails, the row ages."""
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            try:
                await self._fetch(_LEAVE, self.id)
            except DatabaseUnreachable as error:
                _log.warning("door.leave_failed", error=str(error))

    async def _fetch(self, sql: str, *arguments: Any) -> Any:
        (record,) = await session.fetch(self._pool, sql, *arguments, within=_ANSWER_SECONDS)
        return record[0]
