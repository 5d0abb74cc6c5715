"""Rules by which tests and the demo inject faults into a simulated service.

The oldest matching rule applies, and only that rule. A rule applies to `times` requests, or to all if `times` is None.
`drop` applies after the operation, so that only the response is lost.
"""

from __future__ import annotations

import enum
import fnmatch
from datetime import timedelta
from typing import assert_never

import anyio
import msgspec

_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"


class ConnectionDropped(Exception):
    """The server closes the connection without a response, so the response is lost."""


class RequestHangs(Exception):
    """The server sends no response and leaves the connection open."""


class Broken(enum.Enum):
    """The damage to a response's body or to the connection."""

    HANG = enum.auto()
    """Nothing is done, and no response is sent."""
    DROP = enum.auto()
    """Everything is done, and the connection closes without a response."""
    TRUNCATE = enum.auto()
    """The body ends in the middle, and the stated length matches the short body, so only a parser detects the fault."""
    GARBLE = enum.auto()
    """The body is a proxy's HTML page, with the status of the real response."""


class Fault(msgspec.Struct, kw_only=True):
    """A rule. `path` is a pattern for the whole path, with `*` for any text; `machine` is a name that the path must
    contain.

    If `status` is set, the operation is not executed, and the response has this status, `body`, `headers` and
    `content_type`. `latency` delays the response. If only `body` is set, it replaces the body of the real response.
    """

    method: str | None = None
    path: str = "*"
    op: str | None = None
    machine: str | None = None
    times: int | None = 1
    status: int | None = None
    body: bytes | None = None
    content_type: str = "text/html"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    latency: timedelta = timedelta(0)
    broken: Broken | None = None
    struck: int = 0

    def matches(self, method: str, path: str, op: str | None) -> bool:
        return (
            (self.method is None or self.method == method)
            and fnmatch.fnmatchcase(path, self.path)
            and (self.op is None or self.op == op)
            and (self.machine is None or f"/{self.machine}/" in path)
        )

    async def delay(self) -> None:
        """Apply the faults that occur before the operation. Raises `RequestHangs`."""
        if self.latency > timedelta(0):
            await anyio.sleep(self.latency.total_seconds())
        if self.broken is Broken.HANG:
            raise RequestHangs

    def spoilt(self, content: bytes, content_type: str) -> tuple[bytes, str]:
        """Return the body with the faults of this rule applied. Raises `ConnectionDropped`."""
        if self.body is not None:
            content, content_type = self.body, self.content_type
        match self.broken:
            case Broken.DROP:
                raise ConnectionDropped
            case Broken.TRUNCATE:
                return content[: len(content) // 2], content_type
            case Broken.GARBLE:
                return _PAGE, "text/html"
            case Broken.HANG | None:
                return content, content_type
            case _ as never:
                assert_never(never)


class Faults:
    """The rules of one service."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(self, rule: Fault) -> Fault:
        """Apply `rule` from now on. Its field `struck` counts the requests to which the rule was applied."""
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        self._rules.clear()

    def strike(self, method: str, path: str, op: str | None) -> Fault | None:
        """Return the first rule that applies to this request, and increment its `struck`. A rule applies to at most
        `times` requests."""
        for rule in self._rules:
            spent = rule.times is not None and rule.struck >= rule.times
            if not spent and rule.matches(method, path, op):
                rule.struck += 1
                return rule
        return None
