"""A transport between farrier's client and a simulated region, which sees each change that is sent, and may break it.

Used by the tests of whole nodes in MAAS. `sent` lists the changes, each with the status and owner that the machine had
before it. `strike` is called once for each change and returns the fault to inject. Responses to reads pass through
`misread`, which by default does not change them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias, assert_never

import anyio
import httpx
import msgspec
from typing_extensions import override

from farrier.sim.maas import Region, RegionTransport, Status
from farrier.sim.maas.http.app import ROOT


class Blow(enum.Enum):
    """A fault that is injected into a change."""

    LOST = enum.auto()
    """The region makes the change, and the connection ends without a response."""
    LATE = enum.auto()
    """The region makes the change, and the client's timeout ends before the response comes."""
    HANGS = enum.auto()
    """The region does not make the change, and no response comes before the client's timeout."""
    FAILS = enum.auto()
    """The region does not make the change, and responds 500."""
    FAILS_LATE = enum.auto()
    """The region makes the change, and responds 500."""
    NO_RACK = enum.auto()
    """The region does not make the change, and responds 503 with Retry-After."""
    SERIALIZATION = enum.auto()
    """The region does not make the change, and responds 409 with Retry-After."""
    GARBLED = enum.auto()
    """The region makes the change, and the response is a proxy's error page."""
    HELD = enum.auto()
    """The change does not reach the region until `let_go`."""
    HELD_AFTER = enum.auto()
    """The region makes the change, and the response does not come until `let_go`."""

    @property
    def is_done_first(self) -> bool:
        return self in _DONE_FIRST


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A change, by the region's name of the operation, with the machine's status and owner before it."""

    op: str
    machine: str | None = None
    status: Status | None = None
    owner: str | None = None


_DONE_FIRST = {Blow.LOST, Blow.LATE, Blow.FAILS_LATE, Blow.GARBLED, Blow.HELD_AFTER}
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


Misread: TypeAlias = Callable[[httpx.Request, httpx.Response, bytes], httpx.Response]


class Wire(httpx.AsyncBaseTransport):
    """Sends requests to `region` without a socket. `patience` is the client's timeout of a read."""

    patience = timedelta(seconds=15)

    def __init__(self, region: Region, strike: Callable[[Sent], Blow | None] = lambda _: None) -> None:
        self.region = region
        self._inner = RegionTransport(region)
        self.strike = strike
        self.misread: Misread = lambda _, answer, body: instead(answer, body)
        self.sent: list[Sent] = []
        self.held = anyio.Event()
        self._gate = anyio.Event()

    @property
    def ops(self) -> list[str]:
        return [sent.op for sent in self.sent]

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            answer = await self._inner.handle_async_request(request)
            return self.misread(request, answer, await answer.aread())
        sent = self._seen(request)
        self.sent.append(sent)
        blow = self.strike(sent)
        if blow is None:
            return await self._inner.handle_async_request(request)
        done = await self._inner.handle_async_request(request) if blow.is_done_first else None
        return await self._struck(request, blow, done)

    async def _struck(self, request: httpx.Request, blow: Blow, answer: httpx.Response | None) -> httpx.Response:
        match blow:
            case Blow.LOST:
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
            case Blow.LATE | Blow.HANGS:
                raise httpx.ReadTimeout("nothing came", request=request)
            case Blow.FAILS | Blow.FAILS_LATE:
                return response(500, b"Failed to connect to BMC: no route")
            case Blow.NO_RACK:
                return response(503, b"no rack", retry_after="10")
            case Blow.SERIALIZATION:
                return response(409, b"<p>conflict</p>", retry_after="5")
            case Blow.GARBLED:
                assert answer is not None
                return response(answer.status_code, _PAGE)
            case Blow.HELD | Blow.HELD_AFTER:
                self.held.set()
                await self._gate.wait()
                return answer or await self._inner.handle_async_request(request)
            case _ as never:
                assert_never(never)

    def _seen(self, request: httpx.Request) -> Sent:
        parts = request.url.path.removeprefix(ROOT).strip("/").split("/")
        system_id = parts[1] if len(parts) > 1 else None
        machine = self.region.machines.get(system_id or "")
        return Sent(
            op=request.url.params.get("op") or _named(request.method, parts),
            machine=system_id,
            status=None if machine is None else machine.status,
            owner=None if machine is None else machine.owner,
        )

    def let_go(self) -> None:
        """Let the held change go on; a change that is held later waits for another call."""
        self._gate.set()
        self.held, self._gate = anyio.Event(), anyio.Event()


def response(status: int, body: bytes, *, retry_after: str | None = None) -> httpx.Response:
    """A response whose body is a stream, as the client expects."""
    headers = {"Content-Type": "text/html"} | ({} if retry_after is None else {"Retry-After": retry_after})
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


def instead(answer: httpx.Response, body: bytes) -> httpx.Response:
    """The same response with this body."""
    headers = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
    return httpx.Response(answer.status_code, headers=headers, stream=httpx.ByteStream(body))


def _named(method: str, parts: list[str]) -> str:
    if method == "DELETE":
        return "delete"
    if method == "PUT":
        return "update" if parts[0] == "machines" else "update_interface"
    return "create"


class EachOnce:
    """Strikes each kind of change of each machine once, the first time."""

    def __init__(self, blow: Blow) -> None:
        self._blow = blow
        self.struck: list[str] = []
        self._known: set[tuple[str, str | None]] = set()

    def __call__(self, sent: Sent) -> Blow | None:
        key = (sent.op, sent.machine)
        if key in self._known:
            return None
        self._known.add(key)
        self.struck.append(sent.op)
        return self._blow


class Nth:
    """Strikes the change with this number, counted from now on."""

    def __init__(self, number: int, blow: Blow) -> None:
        self._number = number
        self._blow = blow
        self._seen = 0

    def __call__(self, _sent: Sent) -> Blow | None:
        self._seen += 1
        return self._blow if self._seen == self._number else None
