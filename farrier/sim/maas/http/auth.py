"""Verifies OAuth 1.0 with PLAINTEXT signatures as MAAS does: the caller, a nonce for one use, a valid timestamp.

Each request with a known key uses up its nonce, so a retry must be signed again. Timestamps that are too old are
refused; future timestamps are accepted. `skew` shifts the clock of these checks alone, so that tests can give a client
a wrong clock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from farrier.sim.maas.http.call import HTML, Refused, User

_THRESHOLD_SECONDS = 300
# One process cannot serve so many requests that a forgotten nonce still has a valid timestamp.
_NONCES_KEPT = 200_000
# Each name may be anywhere in the header (piston3/authentication.py:304).
_NEEDED = tuple(
    f"oauth_{name}" for name in ("consumer_key", "token", "signature", "signature_method", "timestamp", "nonce")
)


class Keys:
    """Known API keys, and the nonces that were used with them."""

    def __init__(self, users: Iterable[User], *, wall: Callable[[], float] = time.time) -> None:
        self._users = {user.key.split(":")[1]: user for user in users}
        self._consumers = {user.key.split(":")[0] for user in self._users.values()}
        self._wall = wall
        self._order: deque[tuple[str, str]] = deque()
        self._used: set[tuple[str, str]] = set()
        self.skew = 0.0

    def caller(self, header: str | None) -> User | None:
        """Return the user of a request, or None if a required field is missing from the header. Raises Refused 401 for
        an invalid header, and 400 if the scheme cannot be read (maasserver/api/auth.py:76)."""
        if header is None or not all(name in header for name in _NEEDED):
            return None
        if not header.startswith("OAuth "):
            raise Refused(400, "'Bad Request: Parameter not found: oauth_consumer_key'")
        given = _fields(header[len("OAuth ") :])
        if given.get("oauth_consumer_key", "") not in self._consumers:
            raise _unauthorized("Invalid API key.")
        token = given.get("oauth_token", "")
        user = self._users.get(token)
        if user is None:
            raise _unauthorized(f"'Invalid access token: {token}'")
        self._check_time(given.get("oauth_timestamp", ""))
        self._use_nonce(token, given.get("oauth_nonce", ""))
        method = given.get("oauth_signature_method")
        if method != "PLAINTEXT":
            known = "try one of the following: PLAINTEXT, HMAC-SHA1"
            raise _unauthorized(f"'Signature method {method} not supported {known}'")
        right = f"&{user.key.split(':')[2]}"
        if given.get("oauth_signature") != right:
            # As in MAAS, the response to a wrong secret contains the right secret.
            raise _unauthorized(f"'Invalid signature. Expected signature base string: {right}'")
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
    """Return a plain text that is labelled as HTML, as in piston3/authentication.py:141."""
    return Refused(401, f"Authorization Error: {reason}", {"WWW-Authenticate": 'OAuth realm="OAuth"'}, kind=HTML)
