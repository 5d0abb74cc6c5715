"""Sessions of browsers. A browser keeps a session instead of a token. This process signs each session, which is valid
for one shift.

A session proves that the browser had the token when it logged in. The session contains the name of the token, and its
signature covers the hash of the token. So if a token is removed from the file, its sessions end.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import timedelta

from farrier.protocols import Clock

# This is one shift of an operator. A stolen cookie cannot be used for longer.
LIFETIME = timedelta(hours=8)


class BrowserSessions:
    """The sessions of one process. The process signs them with a random key, so a restart ends them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def begin(self, name: str, digest: str) -> str:
        """Return a cookie with a new session for the token with this name and hash."""
        until = str(int(self._clock.monotonic() + LIFETIME.total_seconds()))
        return f"{name}:{until}:{self._signature(name, until, digest)}"

    def holds(self, session: str, digest: str) -> bool:
        """Return whether this process began the session for the token with this hash, and the session has not ended."""
        name, until, signature = _parts(session)
        if not hmac.compare_digest(signature.encode(), self._signature(name, until, digest).encode()):
            return False
        return self._clock.monotonic() < int(until)

    def _signature(self, *signed: str) -> str:
        return hmac.digest(self._key, ":".join(signed).encode(), "sha256").hex()


def name_of(session: str) -> str:
    """Return the name of the token in a session. The signature is not checked here."""
    return _parts(session)[0]


def _parts(session: str) -> tuple[str, str, str]:
    rest, _, signature = session.rpartition(":")
    name, _, until = rest.rpartition(":")
    return name, until, signature
