"""Listens for wake-ups and passes them on to whoever runs the loop.

`daemon` runs one beside the processors. A notification is a hint and never carries work: it may be lost with its
connection, or never come (a pooler in transaction mode), and then the streams' polling finds the rows a little later.
So everybody is woken once whenever listening begins, and a connection that has been silent for long has to prove that
it still hears.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import NoReturn

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.protocols import Notifications, Subscription

_log = structlog.stdlib.get_logger(__name__)

_FIRST_PAUSE = timedelta(milliseconds=100)
# Polling does the work meanwhile; a server that is back is listened to again within this time.
_LONGEST_PAUSE = timedelta(seconds=10)


class Listener:
    """Wakes the loop of a kind whenever something of it was asked for, all whenever something may have been missed."""

    def __init__(
        self,
        notifications: Notifications,
        *,
        wake: Mapping[str, Callable[[], None]],
        silence: timedelta = timedelta(seconds=10),
    ) -> None:
        """`wake` is by kind. `silence`: after so long without a notification the connection is put to the proof."""
        self._notifications = notifications
        self._wake = wake
        self._silence = silence
        self._failures = 0

    async def run(self) -> NoReturn:
        """Listen for ever, reconnecting with back-off."""
        while True:
            try:
                await self._listen()
            except DatabaseUnreachable as error:
                self._failures += 1
                pause = self._pause()
                _log.warning("listen.lost", error=str(error), next_try_in=round(pause, 2))
                await anyio.sleep(pause)

    async def _listen(self) -> NoReturn:
        async with self._notifications.subscribe() as subscription:
            await subscription.prove()
            self._failures = 0
            _log.info("listen.begun")
            self._ring({""})
            while True:
                await self._hear(subscription)

    async def _hear(self, subscription: Subscription) -> None:
        kinds = await subscription.heard(self._silence)
        if kinds:
            self._ring(kinds)
        else:
            await subscription.prove()

    def _ring(self, kinds: Collection[str]) -> None:
        """A schema of before kinds were told says "", which is everybody."""
        for kind, wake in self._wake.items():
            if kind in kinds or "" in kinds:
                wake()

    def _pause(self) -> float:
        """Seconds, doubling with each failure in a row; jittered, so that replicas do not come back as one."""
        longest = _LONGEST_PAUSE.total_seconds()
        return min(longest, _FIRST_PAUSE.total_seconds() * 2.0 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)
