"""How requests to MAAS and to UFM are tried and told of; how often and how long is for the transport of each to say.

Used by `maas_transport` and `ufm_transport`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from farrier import protocols
from farrier.model.maas import MaasError
from farrier.model.ufm import UfmError
from farrier.services.times import Times

_T = TypeVar("_T")

# Doubled from one try to the next, where the service says nothing of when to come again.
FIRST_PAUSE = timedelta(seconds=1)


async def tried(
    once: Callable[[], Awaitable[_T]],
    *,
    attempts: int,
    passes: Collection[str],
    longest_pause: timedelta,
    times: Times,
) -> _T:
    """What `once` answers. After a failure of `passes` it is called again, `attempts` times in all, and not before the
    service wants it, unless that is more than `longest_pause` away. Raises what the last call raised."""
    attempt = 1
    while True:
        try:
            return await once()
        except (MaasError, UfmError) as error:
            pause = error.retry_after or FIRST_PAUSE * (1 << (attempt - 1))
            if attempt >= attempts or error.failure not in passes or pause > longest_pause:
                raise
        await times.pause(pause.total_seconds())
        attempt += 1


@contextmanager
def reported(
    service: str, operation: str, *, clock: protocols.Clock, observer: protocols.ServiceObserver
) -> Iterator[None]:
    """For one request, which the observer is told of however it ends."""
    started = clock.monotonic()
    result = "cancelled"
    try:
        yield
        result = "ok"
    except (MaasError, UfmError) as error:
        result = error.failure.value
        raise
    finally:
        observer.requested(service, operation, result, clock.monotonic() - started)
