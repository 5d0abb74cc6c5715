"""Lets heartbeats gather, so that a server that has little to do serves several each time it wakes.

Between two heartbeats of a fleet, the processor does other work, and the first one after a wake costs more than one
that follows it. So a server that has received few heartbeats does nothing for a moment, and the next ones wait in their
sockets; network cards limit their interrupts alike.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# An agent does not notice this delay. A fleet of 10,000 nodes sends seven heartbeats in it.
SECONDS = 0.02
# So many heartbeats at once show that the server has enough to do without a rest.
ENOUGH = 8


class Rest:
    """The rests of one server, which stop its event loop."""

    def __init__(self, is_hurried: Callable[[], bool], sleep: Callable[[float], None] = time.sleep) -> None:
        """While `is_hurried` returns true, the server takes no rest."""
        self._is_hurried = is_hurried
        self._sleep = sleep
        self._came = 0

    def after(self) -> None:
        """Take a rest after the requests that the server has received by now, if they are few."""
        self._came += 1
        if self._came == 1:
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        came, self._came = self._came, 0
        if came < ENOUGH and not self._is_hurried():
            self._sleep(SECONDS)
