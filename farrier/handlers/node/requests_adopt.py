"""Response to `adopt`."""

from __future__ import annotations

from farrier.handlers.node.reply import Reject, Reply, Request


def adopt(request: Request) -> Reply:
    """Needs the read-only probe with its identity match, which this release does not have."""
    return Reject(reason="adopt is not offered by this release; onboard with mode manual")
