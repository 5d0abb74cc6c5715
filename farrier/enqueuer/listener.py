"""Listens for notifications of wakes, and passes them to the loop.

`daemon` runs a listener beside the controller. A notification only makes the loop react faster. If a notification is
lost with its connection, or a pooler in transaction mode never delivers it, the poll finds the wake a little later. So
the listener requests a poll whenever listening begins, and tests the connection every few seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NoReturn

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.model.selection import LARGEST_ID
from farrier.protocols import Notifications

_log = structlog.stdlib.get_logger(__name__)

_FIRST_PAUSE = timedelta(milliseconds=100)
# After an outage, the listener reconnects within this time. The poll finds wakes meanwhile.
_LONGEST_PAUSE = timedelta(seconds=10)


class Listener:
    """Passes the resources of each notification to `wake`, and calls `missed` whenever notifications may have been
    missed."""

    def __init__(
        self,
        notifications: Notifications,
        *,
        wake: Callable[[str, Sequence[int] | None], None],
        missed: Callable[[], None],
        test_every: timedelta = timedelta(seconds=10),
    ) -> None:
        """`wake` takes a kind and IDs; it takes None instead of the IDs if a notification could not contain all IDs."""
        self._notifications = notifications
        self._wake = wake
        self._missed = missed
        self._test_every = test_every
        self._failures = 0

    async def run(self) -> NoReturn:
        """Listen until cancelled, and reconnect with back-off."""
        while True:
            try:
                await self._listen()
            except DatabaseUnreachable as error:
                self._failures += 1
                pause = self._pause()
                _log.warning("listen.lost", error=str(error), next_try_in=round(pause, 2))
                await anyio.sleep(pause)

    async def _listen(self) -> NoReturn:
        """Listen on one connection until it is lost, and test it regularly."""
        async with self._notifications.subscribe(self._hear) as subscription:
            await subscription.prove()
            self._failures = 0
            _log.info("listen.begun")
            self._missed()
            while True:
                await subscription.watch(self._test_every.total_seconds())
                await subscription.prove()

    def _hear(self, text: str) -> None:
        """Pass on a notification. An invalid notification is logged, because any login may send notifications on any
        channel."""
        kind, _, ids = text.partition(":")
        try:
            self._wake(kind, [_id(each) for each in ids.split(",")] if ids and ids != "*" else None)
        except ValueError:
            _log.warning("listen.malformed", text=text[:80])

    def _pause(self) -> float:
        """Return the pause in seconds, which doubles with each failure in a row. Because of its jitter, replicas do not
        all reconnect at the same moment."""
        longest = _LONGEST_PAUSE.total_seconds()
        return min(longest, _FIRST_PAUSE.total_seconds() * 2.0 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)


def _id(text: str) -> int:
    """Parse an ID. Raises ValueError for a text that is not an ID. An ID larger than a bigint is refused, because every
    load that contains it would fail."""
    id_ = int(text)
    if not 0 < id_ <= LARGEST_ID:
        raise ValueError(text)
    return id_
