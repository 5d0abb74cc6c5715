"""Listens for wake-ups and passes them on to the loop.

`daemon` runs one beside the controller. A notification is a hint and never carries work: it may be lost with its
connection, or never come (a pooler in transaction mode), and then the poll finds the wakes a little later. So they are
looked for whenever listening begins, and a connection that has been silent for long has to prove that it still hears.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NoReturn

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.protocols import Notifications

_log = structlog.stdlib.get_logger(__name__)

_FIRST_PAUSE = timedelta(milliseconds=100)
# Polling finds wakes meanwhile; after an outage, the listener reconnects within this time.
_LONGEST_PAUSE = timedelta(seconds=10)


class Listener:
    """Wakes resources whose wakes were announced, and has wakes looked for whenever some may have been missed."""

    def __init__(
        self,
        notifications: Notifications,
        *,
        wake: Callable[[str, Sequence[int] | None], None],
        missed: Callable[[], None],
        silence: timedelta = timedelta(seconds=10),
    ) -> None:
        """`wake` takes a kind and ids, None for more than a notification holds. `silence`: after so long without a
        notification the connection is put to the proof."""
        self._notifications = notifications
        self._wake = wake
        self._missed = missed
        self._silence = silence
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
        """Pass on the notifications of one connection until it is lost; test the connection after a silence."""
        async with self._notifications.subscribe() as subscription:
            await subscription.prove()
            self._failures = 0
            _log.info("listen.begun")
            self._missed()
            while True:
                heard = await subscription.heard(self._silence)
                for text in heard:
                    kind, _, ids = text.partition(":")
                    try:
                        self._wake(kind, [int(id_) for id_ in ids.split(",")] if ids and ids != "*" else None)
                    except ValueError:  # any login may notify on any channel
                        _log.warning("listen.malformed", text=text[:80])
                if not heard:
                    await subscription.prove()

    def _pause(self) -> float:
        """Seconds, doubling with each failure in a row; jittered, so that replicas do not come back as one."""
        longest = _LONGEST_PAUSE.total_seconds()
        return min(longest, _FIRST_PAUSE.total_seconds() * 2.0 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)
