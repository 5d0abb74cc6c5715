"""Response to `set_power`."""

from __future__ import annotations

from farrier.handlers.node.reply import Reject, Reply, Request


def set_power(request: Request) -> Reply:
    """Needs verified power actions, which this release does not have."""
    return Reject(reason="set_power is not offered by this release; it reads BMCs and switches nothing")
