"""The interval at which tests poll the state of another process or of a database session."""

from __future__ import annotations

import anyio

# Short, so that a test notices a change soon; long enough to leave the CPU to the process that it waits for.
_PACE_SECONDS = 0.005


async def later() -> None:
    """Return when it is time to poll again."""
    await anyio.sleep(_PACE_SECONDS)
