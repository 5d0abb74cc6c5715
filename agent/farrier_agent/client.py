"""The client of the agents' API: one connection that is kept, and one line for each failure."""

from __future__ import annotations

import http.client
import json
import random
import ssl
from functools import partial
from typing import Any, Callable
from urllib.parse import urlsplit

from farrier_agent import VERSION
from farrier_agent.host import AgentError, Config, Host

_TIMEOUT = 20.0  # seconds for each read and write; a door answers within ten, or with 503
_LARGEST_ANSWER = 64 * 1024  # bytes; what is longer is cut off, and so is not JSON
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds; ten thousand agents of a door that was down return within a minute
_CLOCK = "if it is valid, correct the clock of this machine, or the ca in config.json"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# TRUSTED_FIRST and PARTIAL_CHAIN, on every Python: without VERIFY_X509_STRICT, which refuses older CAs of sites.
_FLAGS = ssl.VerifyFlags(0x88000)


class RefusedError(AgentError):
    """The door refused a call with this status."""

    def __init__(self, status: int, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(f"the door answered {status}: {detail}")
        self.status = status
        self.retry_after = retry_after


class Door:
    """The door of farrier at `config.url`. `key` is that of the enrolled agent."""

    key = ""

    def __init__(self, host: Host, config: Config) -> None:
        parts = urlsplit(config.url)
        is_safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
        if not is_safe or not parts.hostname or parts.path not in ("", "/"):
            said = "url: expected https://host:port, because the key must not cross a network unencrypted"
            raise AgentError(f"{said}; got {config.url[:100]!r}")
        kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if parts.scheme == "https":
            trusted = ssl.create_default_context(cafile=host.path(config.ca) if config.ca else None)
            trusted.verify_flags = _FLAGS
            kind = partial(http.client.HTTPSConnection, context=trusted)
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT)

    def call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises RefusedError, or AgentError if no answer came. A connection that the door closed
        meanwhile is opened again once; every call may be repeated."""
        headers = {"Content-Type": "application/json", "User-Agent": f"farrier-agent/{VERSION}"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        was_open = self._connection.sock is not None
        try:
            self._connection.request(method, path, json.dumps(body).encode(), headers)
            return self._answer()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if was_open and not isinstance(error, TimeoutError):
                return self.call(method, path, body)
            said = str(error) or type(error).__name__
            if isinstance(error, ssl.SSLCertVerificationError):
                said = f"the certificate is not accepted: {error.verify_message}; {_CLOCK}"
            raise AgentError(f"{self._connection.host}: {said}; it will be tried again") from None

    def close(self) -> None:
        """Close the connection. The next call opens it again."""
        self._connection.close()

    def _answer(self) -> dict[str, Any]:
        answer = self._connection.getresponse()
        try:
            given = json.loads(answer.read(_LARGEST_ANSWER))
        except (ValueError, RecursionError):
            given = None  # a proxy's page
        if answer.will_close or not answer.isclosed():
            self.close()
        is_object = isinstance(given, dict)
        if answer.status == 200 and is_object:
            return dict(given)
        said = [str(given[name]) for name in ("detail", "hint") if is_object and given.get(name)] or [answer.reason]
        wait = answer.getheader("Retry-After") or ""
        raise RefusedError(answer.status, "; ".join(said), float(wait) if wait.isdigit() else 0.0)


class Backoff:
    """Pauses that grow up to a minute, with jitter, so that agents do not return all at once."""

    _next = _FIRST_PAUSE

    def pause(self, at_least: float = 0.0) -> float:
        """Return the next pause in seconds; not shorter than `at_least`, the door's Retry-After."""
        pause, self._next = self._next, min(self._next * 2, _LONGEST_PAUSE)
        return max(pause * random.uniform(0.5, 1), at_least * random.uniform(1, 1.5))
