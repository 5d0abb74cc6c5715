"""Limits failed logins: each client address may fail a few times at once, then once every few seconds.

Requests with an accepted token are not limited. The limit keeps the log short, and makes a client with a wrong token
send fewer requests. It does not protect a short token from guesses.
"""

from __future__ import annotations

from farrier.protocols import Clock
from farrier.web.server.buckets import Buckets, client_of

# A person may mistype a few times. A program with a wrong token adds at most 14,400 lines a day to the log.
AT_ONCE = 10
SECONDS_EACH = 6.0
# This is about 1 MB. If there are more addresses, the oldest are removed.
MOST_ADDRESSES = 4096


class Attempts:
    """The failed logins of each address. After some time, a failure does not count any more."""

    def __init__(self, clock: Clock) -> None:
        self._failures: Buckets[str] = Buckets(clock, at_once=AT_ONCE, seconds_each=SECONDS_EACH, most=MOST_ADDRESSES)

    def __len__(self) -> int:
        return len(self._failures)

    def wait(self, address: str) -> float:
        """Return the seconds until the address may try again; 0 if it may try now."""
        return self._failures.wait(client_of(address))

    def failed(self, address: str) -> None:
        """Count a failed login from the address."""
        self._failures.spend(client_of(address))
