"""The client of the agents' API: one connection that is kept, and one line for each failure."""

from __future__ import annotations

import http.client
import json
import random
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from farrier_agent import VERSION
from farrier_agent.host import AgentError, Config, Host

_TIMEOUT = 20.0  # seconds for each read and write; a door answers within a second, or with 503
_LARGEST_ANSWER = 64 * 1024  # bytes; what is longer is cut off, and so is not JSON
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds; ten thousand agents of a door that was down return within a minute
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class RefusedError(AgentError):
    """The door refused a call with this status."""

    def __init__(self, status: int, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(f"the door answered {status}: {detail}")
        self.status = status
        self.retry_after = retry_after

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed later."""
        return self.status == 429 or self.status >= 500


class Door:
    """The door of farrier at `config.url`."""

    def __init__(self, host: Host, config: Config) -> None:
        parts = urlsplit(config.url)
        is_safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
        if not is_safe or not parts.hostname or parts.path not in ("", "/"):
            said = "url: expected https://host:port, because the key must not cross a network unencrypted"
            raise AgentError(f"{said}; got {config.url[:100]!r}")
        self._host, self._port = parts.hostname, parts.port
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=host.path(config.ca) if config.ca else None)
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """Return the answer. Raises RefusedError, or AgentError if no answer came. A connection that the door closed
        meanwhile is opened again once; every call may be repeated."""
        headers = {"Content-Type": "application/json", "User-Agent": f"farrier-agent/{VERSION}"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        for is_last in (self._connection is None, True):
            try:
                return self._exchange(method, path, json.dumps(body).encode(), headers)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                if is_last or isinstance(error, TimeoutError):
                    raise AgentError(f"{self._host}: {_reason(error)}") from None
        raise AssertionError

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = (
                http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)
                if self._tls is None
                else http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT, context=self._tls)
            )
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        given = _parsed(answer.read(_LARGEST_ANSWER))
        if answer.will_close or not answer.isclosed():
            self.close()
        if answer.status == 200 and isinstance(given, dict):
            return given
        known = given if isinstance(given, dict) else {}
        said = [str(known[name]) for name in ("detail", "hint") if known.get(name)] or [answer.reason]
        wait = answer.getheader("Retry-After") or ""
        raise RefusedError(answer.status, "; ".join(said), float(wait) if wait.isdigit() else 0.0)


class Backoff:
    """Pauses that grow up to a minute, with jitter, so that agents do not return all at once."""

    def __init__(self) -> None:
        self._next = _FIRST_PAUSE

    def pause(self, at_least: float = 0.0) -> float:
        """Return the next pause in seconds; not shorter than `at_least`, the door's Retry-After."""
        pause, self._next = self._next, min(self._next * 2, _LONGEST_PAUSE)
        return max(pause * random.uniform(0.5, 1), at_least * random.uniform(1, 1.5))

    def reset(self) -> None:
        self._next = _FIRST_PAUSE


def _reason(error: Exception) -> str:
    """Return one line about an error; a certificate that is not valid yet often means a wrong clock of this machine."""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = f"the certificate is not accepted: {error.verify_message}"
        return f"{said}; if it is valid, correct the clock of this machine, or the ca in config.json"
    return str(error) or type(error).__name__


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None  # a proxy's page
