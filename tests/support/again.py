"""At what pace tests ask again what another process, or a session of the database, has come to."""

from __future__ import annotations

import anyio

# Soon for whoever waits, and seldom for the CPUs: what is waited for needs them, too.
_PACE_SECONDS = 0.005


async def later() -> None:
    """Return when it is time to ask again."""
    await anyio.sleep(_PACE_SECONDS)
