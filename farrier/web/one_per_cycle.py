"""Lets requests begin one after the other, so that they do not delay the controller.

The server and the controller share one event loop. Many requests, such as those of clients without a token, can arrive
in the same cycle of this loop. If all of them ran in that cycle, the next renewal of the lease would wait for them.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send


class OnePerCycle:
    """Lets one request begin in each cycle of the event loop, in the order in which the requests arrive."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turn = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A lock passes to the next waiting task in the next cycle.
        async with self._turn:
            pass
        await self._app(scope, receive, send)
