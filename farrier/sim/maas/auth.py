"""OAuth 1.0 with PLAINTEXT signatures, as MAAS checks it: who calls, a nonce for one use, a clock that fits.

Owned by `Region`, asked for each request. A nonce is used up by any request that names a known key, so a retry must be
signed anew. Only timestamps that are too old are refused, not those of the future. `skew` moves the region's idea of
the time, for tests of clients whose clock is wrong; the simulated timeline has nothing to do with it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from farrier.sim.maas.call import Refused, User

_THRESHOLD_SECONDS = 300
# A nonce that was forgotten belongs to a timestamp long expired, at any rate that one process can serve.
_NONCES_KEPT = 200_000


class Keys:
    """Known API keys, and the nonces that were used with them."""

    def __init__(self, users: Iterable[User], *, wall: Callable[[], float] = time.time) -> None:
        self._users = {user.key.split(":")[1]: user for user in users}
        self._wall = wall
        self._order: deque[tuple[str, str]] = deque()
        self._used: set[tuple[str, str]] = set()
        self.skew = 0.0

    def caller(self, header: str | None) -> User | None:
        """Whose request it is; None without a header. Raises Refused 401 for a header that does not hold."""
        if header is None or not header.lower().startswith("oauth "):
            return None
        given = _fields(header[len("oauth ") :])
        user = self._users.get(given.get("oauth_token", ""))
        if user is None or given.get("oauth_consumer_key") != user.key.split(":")[0]:
            raise _unauthorized("Invalid API key.")
        self._check_time(given.get("oauth_timestamp", ""))
        self._use_nonce(given["oauth_token"], given.get("oauth_nonce", ""))
        if given.get("oauth_signature_method") != "PLAINTEXT":
            raise _unauthorized("'Signature method not supported.'")
        if given.get("oauth_signature") != f"&{user.key.split(':')[2]}":
            raise _unauthorized("'Invalid signature.'")
        return user

    def _check_time(self, text: str) -> None:
        now = int(self._wall() + self.skew)
        given = int(text) if text.isdecimal() else 0
        if now - given > _THRESHOLD_SECONDS:
            raise _unauthorized(
                f"'Expired timestamp: given {given} and now {now} has a greater difference than "
                f"threshold {_THRESHOLD_SECONDS}'"
            )

    def _use_nonce(self, token: str, nonce: str) -> None:
        if (token, nonce) in self._used:
            raise _unauthorized(f"'Nonce already used: {nonce}'")
        self._used.add((token, nonce))
        self._order.append((token, nonce))
        if len(self._order) > _NONCES_KEPT:
            self._used.discard(self._order.popleft())


def _fields(text: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in text.split(","))
    return {name: unquote(value.strip().strip('"')) for name, _, value in pairs}


def _unauthorized(reason: str) -> Refused:
    return Refused(401, f"Authorization Error: {reason}", {"WWW-Authenticate": 'OAuth realm="OAuth"'})
