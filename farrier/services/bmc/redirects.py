"""Follows the redirects of a BMC to other paths of the same BMC, for requests that may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from farrier.services.bmc.answers import ErrorStatus

# A BMC adds or removes a slash, or renames a version; more redirects are a loop.
MOST_REDIRECTS = 3

T = TypeVar("T")


async def followed(path: str, at: Callable[[str], Awaitable[T]]) -> T:
    """Send a request to a path, and to the paths to which the BMC redirects it. The host never changes."""
    for _ in range(MOST_REDIRECTS):
        try:
            return await at(path)
        except ErrorStatus as refusal:
            if refusal.hints.moved_to is None:
                raise
            path = refusal.hints.moved_to
    return await at(path)
